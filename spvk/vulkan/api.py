"""A thin layer over the `vulkan` binding: the raw library, checked results, extension functions.

The binding's wrappers cost 11 microseconds a call and raise KeyError on a result they do not know, so
calls go to the raw library here and every result passes through `check`.
"""

from __future__ import annotations

from ..errors import DeviceError

try:
    import vulkan as vk
    from vulkan import ffi, lib
except (OSError, ImportError) as error:  # no libvulkan.so.1 on this machine
    raise DeviceError(f"no Vulkan loader ({error}): install one, such as Debian's libvulkan1, "
                      "and a driver, such as mesa-vulkan-drivers") from None

WHOLE_SIZE = 2**64 - 1  # the binding's VK_WHOLE_SIZE is -1 and overflows
__all__ = ["ffi", "lib", "vk", "check", "create", "enumerate_all", "text"]

# Core constants that the binding leaves out or gives as None.
BUFFER_USAGE_SHADER_DEVICE_ADDRESS = 0x20000
MEMORY_ALLOCATE_DEVICE_ADDRESS = 0x2
PIPELINE_CREATE_DISPATCH_BASE = 0x10
REQUIRE_FULL_SUBGROUPS = 0x2
_RESULTS = {getattr(vk, n): n for n in dir(vk)
            if n.startswith(("VK_ERROR_", "VK_SUCCESS", "VK_TIMEOUT", "VK_NOT_READY", "VK_INCOMPLETE"))}


def check(result: int, what: str, allowed: tuple[int, ...] = ()) -> int:
    """Raise DeviceError naming `what` unless the call succeeded (or gave one of `allowed`)."""
    if result != vk.VK_SUCCESS and result not in allowed:
        raise DeviceError(f"{what}: {_RESULTS.get(result, f'VkResult {result}')}")
    return result


def create(handle: str, function, owner, info):
    """Call a vkCreate… or vkAllocate… function of the usual shape; returns the new handle.

    `info` is a struct made by the binding, which keeps alive what it points to. Raises DeviceError.
    """
    out = ffi.new(f"{handle}*")
    args = (ffi.addressof(info), ffi.NULL, out)
    check(function(owner, *args) if owner is not None else function(*args), f"creating a {handle}")
    return out[0]


def enumerate_all(function, *args, ctype: str) -> list:
    """A Vulkan two-step enumeration of handles or plain structs, as a list."""
    count = ffi.new("uint32_t*")
    check(function(*args, count, ffi.NULL), f"counting {ctype}")
    items = ffi.new(f"{ctype}[]", max(1, count[0]))
    check(function(*args, count, items), f"listing {ctype}", allowed=(vk.VK_INCOMPLETE,))
    return [items[i] for i in range(count[0])] if count[0] else []


def text(chars) -> str:
    """A C string field as str; the binding hands some back already converted."""
    return chars if isinstance(chars, str) else ffi.string(chars).decode("utf-8", "replace")
