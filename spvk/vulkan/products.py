"""What a device has to speed up matrix products: packed integer dot products and cooperative matrices.

Both count only on devices of Vulkan 1.3, which brings the features that their shaders need.
"""

from __future__ import annotations

from .api import check, ffi, lib, vk

COOPERATIVE_MATRIX = "VK_KHR_cooperative_matrix"
VERSION = vk.VK_MAKE_VERSION(1, 3, 0)
Shape = tuple[int, int, int]  # M, N, K: an M x K matrix by a K x N one


def dot_accelerated(handle, version: int) -> bool:
    """Does the device multiply and add four signed bytes in one instruction?"""
    if version < VERSION:
        return False
    # The chains have names: the address of a struct does not keep it alive.
    f = vk.VkPhysicalDeviceShaderIntegerDotProductFeatures()
    features = vk.VkPhysicalDeviceFeatures2(pNext=f)
    lib.vkGetPhysicalDeviceFeatures2(handle, ffi.addressof(features))
    p = vk.VkPhysicalDeviceShaderIntegerDotProductProperties()
    properties = vk.VkPhysicalDeviceProperties2(pNext=p)
    lib.vkGetPhysicalDeviceProperties2(handle, ffi.addressof(properties))
    return bool(f.shaderIntegerDotProduct and p.integerDotProduct4x8BitPackedSignedAccelerated)


def matrix_shape(instance, handle, version: int, extensions: set[str]) -> Shape | None:
    """The shape of float16 matrices that a subgroup multiplies to float32 sums; None without any.

    Of several, the largest that tiles of 16 x 16 x 16 can be cut into.
    """
    if version < VERSION or COOPERATIVE_MATRIX not in extensions or not _has_features(handle):
        return None
    shapes, half, single = [], vk.VK_COMPONENT_TYPE_FLOAT16_KHR, vk.VK_COMPONENT_TYPE_FLOAT32_KHR
    for p in _matrices(instance, handle):
        types = (p.AType, p.BType, p.CType, p.ResultType) == (half, half, single, single)
        shape = (p.MSize, p.NSize, p.KSize)
        if types and p.scope == vk.VK_SCOPE_SUBGROUP_KHR and all(16 % size == 0 for size in shape):
            shapes.append(shape)
    return max(shapes, default=None, key=lambda s: s[0] * s[1] * s[2])


def _has_features(handle) -> bool:
    matrix = vk.VkPhysicalDeviceCooperativeMatrixFeaturesKHR()
    f12 = vk.VkPhysicalDeviceVulkan12Features(pNext=matrix)
    features = vk.VkPhysicalDeviceFeatures2(pNext=f12)
    lib.vkGetPhysicalDeviceFeatures2(handle, ffi.addressof(features))
    return all((matrix.cooperativeMatrix, f12.shaderFloat16, f12.vulkanMemoryModel))


def _matrices(instance, handle) -> list:
    """The combinations of shape and types that the device lists."""
    name = "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"
    address = lib.vkGetInstanceProcAddr(instance, ffi.new("char[]", name.encode()))
    if address == ffi.NULL:
        return []
    function, count = ffi.cast(f"PFN_{name}", address), ffi.new("uint32_t*")
    check(function(handle, count, ffi.NULL), "counting cooperative matrices")
    found = ffi.new("VkCooperativeMatrixPropertiesKHR[]", count[0])
    for p in found:
        p.sType = vk.VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR
    check(function(handle, count, found), "listing cooperative matrices", allowed=(vk.VK_INCOMPLETE,))
    return [found[i] for i in range(count[0])]


def enable(info) -> tuple[object, list[str]]:
    """(pNext chain of features, extensions) to open the device with, for its product shaders."""
    if tuple(map(int, info.api.split("."))) < (1, 3):
        return None, []
    matrix = vk.VkPhysicalDeviceCooperativeMatrixFeaturesKHR(cooperativeMatrix=1) if info.matrix else None
    # Every device of Vulkan 1.3 has these three, with or without an instruction behind them.
    f13 = vk.VkPhysicalDeviceVulkan13Features(pNext=matrix, shaderIntegerDotProduct=1, subgroupSizeControl=1,
                                              computeFullSubgroups=1)
    return f13, [COOPERATIVE_MATRIX] if info.matrix else []
