"""Device classes: what a launcher needs to know of a device to choose a kernel's variant."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Profile:
    """`name` is the device class: `cpu` (software driver, 8 lanes) or `scalar` (a GPU).

    `subgroup` is the number of lanes that run together; `local` the workgroup size for row reductions.
    `precision` is `exact` (products of float32 activations) or `fast` (activations rounded for products).
    `choices` are names and values of variants that were measured on the device.
    """

    name: str
    subgroup: int
    local: int
    precision: str = "exact"
    choices: tuple[tuple[str, str], ...] = ()

    def choice(self, name: str, default: str) -> str:
        """What was measured to be fastest on the device at hand (see tuning.py), else the default."""
        return dict(self.choices).get(name, default)


CPU = Profile("cpu", 8, 8)        # no barrier is free there: one subgroup a workgroup
SCALAR = Profile("scalar", 32, 256)


def profile_for(subgroup: int, precision: str = "exact") -> Profile:
    """The class of a device from its default subgroup size, with the wanted precision of products."""
    return replace(CPU if subgroup <= 8 else Profile("scalar", subgroup, 256), precision=precision)
