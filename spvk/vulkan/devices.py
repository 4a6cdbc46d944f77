"""The Vulkan devices of this machine: what they are, which one is used and why."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from ..errors import DeviceError
from .api import WHOLE_SIZE, create, enumerate_all, ffi, lib, text, vk
from .products import Shape, dot_accelerated, matrix_shape

TYPES = {
    vk.VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: "discrete",
    vk.VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: "integrated",
    vk.VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: "virtual",
    vk.VK_PHYSICAL_DEVICE_TYPE_CPU: "cpu",
}
PREFERENCE = ("discrete", "integrated", "virtual", "other", "cpu")
API_VERSION = vk.VK_MAKE_VERSION(1, 3, 0)  # what is made use of; 1.2 is enough to run


@dataclass(frozen=True)
class DeviceInfo:
    """One physical device; sizes in bytes. `missing` lists the required features that it lacks.

    `integer_dot` and `matrix`: what speeds up matrix products (products.py).
    """

    index: int
    name: str
    type: str
    driver: str
    api: str
    uuid: bytes
    cache_key: str  # names the pipeline cache: this device with this driver build
    memory: int
    subgroup: tuple[int, int, int]  # smallest, default, largest
    fp16: bool
    integer_dot: bool
    matrix: Shape | None
    max_allocation: int
    max_buffer_range: int
    shared_memory: int
    missing: tuple[str, ...]
    handle: object = field(repr=False, compare=False, default=None)


def make_instance():
    """A Vulkan instance. Layers come from the environment (VK_INSTANCE_LAYERS), as with any program."""
    app = vk.VkApplicationInfo(pApplicationName="spvk", apiVersion=API_VERSION)
    try:
        return create("VkInstance", lib.vkCreateInstance, None, vk.VkInstanceCreateInfo(pApplicationInfo=app))
    except DeviceError as error:
        raise DeviceError(
            f"no Vulkan driver answers ({error}): install one, such as mesa-vulkan-drivers"
        ) from None


def enumerate_devices(instance) -> list[DeviceInfo]:
    """Every physical device, without the doubles that two drivers of one GPU make (same UUID)."""
    found: dict[bytes, DeviceInfo] = {}
    for i, handle in enumerate(
        enumerate_all(lib.vkEnumeratePhysicalDevices, instance, ctype="VkPhysicalDevice")
    ):
        info = examine(instance, i, handle)
        found.setdefault(info.uuid, info)
    return list(found.values())


def examine(instance, index: int, handle) -> DeviceInfo:
    extensions = extension_names(handle)
    p13 = vk.VkPhysicalDeviceSubgroupSizeControlProperties()
    p12 = vk.VkPhysicalDeviceVulkan12Properties(pNext=p13)
    p11 = vk.VkPhysicalDeviceVulkan11Properties(pNext=p12)
    p = vk.VkPhysicalDeviceProperties2(pNext=p11)
    lib.vkGetPhysicalDeviceProperties2(handle, ffi.addressof(p))
    limits, version = p.properties.limits, p.properties.apiVersion
    default, kind = p11.subgroupSize, TYPES.get(p.properties.deviceType, "other")
    # Products of the CPU class read buffers through views of 128-bit texels.
    viewed = 16 * limits.maxTexelBufferElements if kind == "cpu" else WHOLE_SIZE
    features, missing = query_features(handle)
    return DeviceInfo(
        index,
        text(p.properties.deviceName),
        kind,
        f"{text(p12.driverName)} {text(p12.driverInfo)}".strip(),
        f"{version >> 22}.{version >> 12 & 1023}.{version & 4095}",
        bytes(p11.deviceUUID),
        f"{p.properties.vendorID:04x}-{p.properties.deviceID:04x}-{bytes(p.properties.pipelineCacheUUID).hex()}",
        device_memory(handle, kind),
        (p13.minSubgroupSize or default, default, p13.maxSubgroupSize or default),
        features["shaderFloat16"],
        dot_accelerated(handle, version),
        matrix_shape(instance, handle, version, extensions),
        min(p11.maxMemoryAllocationSize, viewed),
        limits.maxStorageBufferRange,
        limits.maxComputeSharedMemorySize,
        missing,
        handle,
    )


def query_features(handle) -> tuple[dict[str, bool], tuple[str, ...]]:
    """Optional features by name, and the required ones that are missing."""
    f12 = vk.VkPhysicalDeviceVulkan12Features()
    f = vk.VkPhysicalDeviceFeatures2(pNext=f12)
    lib.vkGetPhysicalDeviceFeatures2(handle, ffi.addressof(f))
    required = {
        "shaderInt64": f.features.shaderInt64,
        "bufferDeviceAddress": f12.bufferDeviceAddress,
        "scalarBlockLayout": f12.scalarBlockLayout,
    }
    return {"shaderFloat16": bool(f12.shaderFloat16)}, tuple(n for n, v in required.items() if not v)


def extension_names(handle) -> set[str]:
    return {
        text(e.extensionName)
        for e in enumerate_all(
            lib.vkEnumerateDeviceExtensionProperties, handle, ffi.NULL, ctype="VkExtensionProperties"
        )
    }


def device_memory(handle, kind: str) -> int:
    """Bytes of the largest device-local heap; of the machine's memory for a software driver.

    Mesa 22.3's lavapipe reports a heap of 2 GiB whatever it could allocate.
    """
    if kind == "cpu":
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    m = ffi.new("VkPhysicalDeviceMemoryProperties*")
    lib.vkGetPhysicalDeviceMemoryProperties(handle, m)
    heaps = [m.memoryHeaps[i] for i in range(m.memoryHeapCount)]
    return max((h.size for h in heaps if h.flags & vk.VK_MEMORY_HEAP_DEVICE_LOCAL_BIT), default=0)


def choose(devices: list[DeviceInfo], wanted: str | None = None) -> tuple[DeviceInfo, str]:
    """The device to use and the reason, in words.

    `wanted` is an index or part of a name. Without it a discrete GPU goes before an integrated one, then
    the larger memory decides; a CPU device is taken only when nothing else is there. Raises DeviceError.
    """
    if not devices:
        raise DeviceError(
            "no Vulkan device: found none, expected at least one driver (mesa-vulkan-drivers has "
            "a software one)"
        )
    if wanted is not None:
        return named(devices, wanted), "asked for"
    usable = [d for d in devices if not d.missing]
    if not usable:
        raise DeviceError(
            "no usable Vulkan device: " + "; ".join(f"{d.name} lacks {', '.join(d.missing)}" for d in devices)
        )
    best = min(usable, key=lambda d: (PREFERENCE.index(d.type), -d.memory, d.index))
    if best.type == "cpu":
        return best, "a software driver: no GPU answers"
    return best, f"{best.type} GPU" + (" with the most memory" if len(usable) > 1 else "")


def matches(device: DeviceInfo, wanted: str) -> bool:
    """Whether `wanted` is this device's index, or part of its name."""
    if wanted.isascii() and wanted.isdigit():
        return wanted == str(device.index)
    return bool(wanted) and wanted.lower() in device.name.lower()


def named(devices: list[DeviceInfo], wanted: str) -> DeviceInfo:
    listing = ", ".join(f"{d.index}: {d.name}" for d in devices)
    hits = [d for d in devices if matches(d, wanted)]
    if not hits:
        raise DeviceError(f"--device {wanted}: no such device, expected one of {listing}")
    if hits[0].missing:
        raise DeviceError(f"--device {wanted}: {hits[0].name} lacks {', '.join(hits[0].missing)}")
    return hits[0]
