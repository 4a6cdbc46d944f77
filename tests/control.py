"""A deliberately wrong Vulkan call: the control of tools/validate.sh, which expects the layer to report it."""

from spvk.vulkan import Device
from spvk.vulkan.api import ffi, lib, vk


def wrong_call() -> None:
    """Create a buffer of no bytes."""
    with Device() as device:
        out = ffi.new("VkBuffer*")
        info = vk.VkBufferCreateInfo(size=0, usage=vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT)
        if lib.vkCreateBuffer(device.handle, ffi.addressof(info), ffi.NULL, out) == 0:
            lib.vkDestroyBuffer(device.handle, out[0], ffi.NULL)
