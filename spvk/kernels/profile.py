"""Device classes: what a launcher needs to know of a device to choose a kernel's variant."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """`name` is the device class: `cpu` (software driver, 8 lanes) or `scalar` (a GPU).

    `subgroup` is the number of lanes that run together; `local` the workgroup size for row reductions.
    """

    name: str
    subgroup: int
    local: int


CPU = Profile("cpu", 8, 8)        # no barrier is free there: one subgroup a workgroup
SCALAR = Profile("scalar", 32, 256)


def profile_for(subgroup: int) -> Profile:
    """The class of a device from its default subgroup size."""
    return CPU if subgroup <= 8 else Profile("scalar", subgroup, 256)
