"""Device classes: what a launcher needs to know of a device to choose a kernel's variant."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Profile:
    """`name` is the device class: `cpu` (a software driver, 8 lanes) or a GPU by how it multiplies.

    GPUs are `scalar`, `dot` (packed integer dot products) or `coopmat` (cooperative matrices).
    `subgroup` is the number of lanes that run together; `local` the workgroup size for row reductions.
    `precision` is `exact` (products of float32 activations) or `fast` (activations rounded for products).
    Class coopmat: `matrix` is the shape M, N, K and `wave` the subgroup size of its products, `shared` the
    bytes of shared memory that they may take.
    `choices` are names and values of variants that were measured on the device. `cache` is the KV cache's
    element, `f32` or `f16`.
    """

    name: str
    subgroup: int
    local: int
    precision: str = "exact"
    matrix: tuple[int, int, int] = (16, 16, 16)
    wave: int = 32
    shared: int = 65536
    choices: tuple[tuple[str, str], ...] = ()
    cache: str = "f32"

    def choice(self, name: str, default: str) -> str:
        """What was measured to be fastest on the device at hand (see tuning.py), else the default."""
        return dict(self.choices).get(name, default)


CPU = Profile("cpu", 8, 8)        # no barrier is free there: one subgroup a workgroup
SCALAR = Profile("scalar", 32, 256)


def profile_for(info, precision: str = "exact", cache: str = "f32") -> Profile:
    """The class of a device (a vulkan.DeviceInfo), with the wanted precision of products and KV cache.

    `auto` is `fast` on cooperative matrices of float16 and on class cpu, which are much nearer to exact outputs
    than llama.cpp is, and `exact` elsewhere: bytes on a GPU round hardly finer than llama.cpp does there.
    """
    profile = device_class(info)
    if precision == "auto":
        precision = "fast" if profile.name in ("cpu", "coopmat") else "exact"
    return replace(profile, precision=precision, cache=cache)


def device_class(info) -> Profile:
    """What a device is good at, for exact products."""
    low, subgroup, _ = info.subgroup
    if subgroup <= 8:
        return CPU
    # Other shapes are Intel's, whose matrices work with subgroups of one size that no property names.
    if info.matrix == (16, 16, 16):  # AMD's 64 lanes can run as 32, at which matrices take fewer registers
        return Profile("coopmat", subgroup, 256, "exact", info.matrix,
                       max(low, min(subgroup, 32)), info.shared_memory)
    return Profile("dot" if info.integer_dot else "scalar", subgroup, 256)
