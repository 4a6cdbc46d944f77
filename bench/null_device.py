"""RADV's null device: it compiles for an AMD GPU that need not be there, and says what became of it.

Only the child process of isa.py imports this, after RADV_FORCE_FAMILY and the driver's manifest are set.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

from spvk.vulkan import enumerate_devices
from spvk.vulkan.api import PIPELINE_CREATE_DISPATCH_BASE, check, create, ffi, lib, text, vk
from spvk.vulkan.layouts import Layouts

CAPTURE_STATISTICS = 0x40


class NullDevice:
    """RADV's device of the family in RADV_FORCE_FAMILY: it compiles, and cannot run.

    `wave` (32 or 64) is required of every module; None leaves the choice to the driver, as the engine does.
    Raises LookupError when the driver does not offer the family.
    """

    def __init__(self, family: str, wave: int | None) -> None:
        app = vk.VkApplicationInfo(pApplicationName="isa", apiVersion=vk.VK_MAKE_VERSION(1, 3, 0))
        info = vk.VkInstanceCreateInfo(pApplicationInfo=app)
        self.instance = create("VkInstance", lib.vkCreateInstance, None, info)
        found = [d for d in enumerate_devices(self.instance) if family.lower() in d.name.lower()]
        if not found:
            raise LookupError("the driver has no such family")
        self.info, self.wave = found[0], wave
        if wave:
            self.info = replace(self.info, subgroup=(wave, wave, wave))
        self.handle = self._open()
        self.layouts = Layouts(self.handle)
        self.query = vk.vkGetDeviceProcAddr(self.handle, "vkGetPipelineExecutableStatisticsKHR")

    def _open(self):
        """A logical device with everything that a module may ask for."""
        extensions = ["VK_KHR_pipeline_executable_properties"]
        f = vk.VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR(pipelineExecutableInfo=1)
        if self.info.matrix:
            extensions.append("VK_KHR_cooperative_matrix")
            f = vk.VkPhysicalDeviceCooperativeMatrixFeaturesKHR(pNext=f, cooperativeMatrix=1)
        f = vk.VkPhysicalDeviceVulkan13Features(pNext=f, subgroupSizeControl=1, computeFullSubgroups=1,
                                                shaderIntegerDotProduct=1, maintenance4=1)
        f = vk.VkPhysicalDeviceVulkan12Features(
            pNext=f, bufferDeviceAddress=1, scalarBlockLayout=1, shaderFloat16=1, shaderInt8=1,
            storageBuffer8BitAccess=1, vulkanMemoryModel=1)
        f = vk.VkPhysicalDeviceVulkan11Features(pNext=f, storageBuffer16BitAccess=1)
        queue = vk.VkDeviceQueueCreateInfo(queueFamilyIndex=0, queueCount=1, pQueuePriorities=[1.0])
        return create("VkDevice", lib.vkCreateDevice, self.info.handle, vk.VkDeviceCreateInfo(
            pNext=f, queueCreateInfoCount=1, pQueueCreateInfos=[queue], enabledExtensionCount=len(extensions),
            ppEnabledExtensionNames=extensions,
            pEnabledFeatures=vk.VkPhysicalDeviceFeatures(shaderInt64=1, shaderInt16=1)))

    def compile(self, module, spec: dict[str, int]) -> tuple[dict[str, int], float]:
        """(statistics by RADV's names, seconds) of a module. Raises DeviceError if the driver refuses it."""
        code, where = module.spirv(), vk.VK_SHADER_STAGE_COMPUTE_BIT
        shader = create("VkShaderModule", lib.vkCreateShaderModule, self.handle,
                        vk.VkShaderModuleCreateInfo(codeSize=len(code), pCode=code))
        layout = self.layouts.pipeline(module.push_bytes, len(module.views))
        values = ffi.new("uint32_t[]", [v & 0xFFFFFFFF for v in spec.values()] or [0])  # lives until the call
        size = spec.get("SUBGROUP") or self.wave
        wave = vk.VkPipelineShaderStageRequiredSubgroupSizeCreateInfo(requiredSubgroupSize=size or 0)
        stage = vk.VkPipelineShaderStageCreateInfo(
            pNext=wave if size else None, stage=where, module=shader, pName="main",
            pSpecializationInfo=specialisation(module, spec, values))
        flags = PIPELINE_CREATE_DISPATCH_BASE | CAPTURE_STATISTICS
        request = vk.VkComputePipelineCreateInfo(flags=flags, stage=stage, layout=layout)
        out, start = ffi.new("VkPipeline*"), perf_counter()
        result = lib.vkCreateComputePipelines(self.handle, ffi.NULL, 1, ffi.addressof(request), ffi.NULL, out)
        seconds = perf_counter() - start
        check(result, f"compiling {module.name}")
        found = self.query(self.handle, vk.VkPipelineExecutableInfoKHR(pipeline=out[0], executableIndex=0))
        return {text(s.name): int(s.value.u64) for s in found}, seconds


def specialisation(module, spec: dict[str, int], values):
    """VkSpecializationInfo of constants by name; `values` is the C array of them, in order."""
    entries = [vk.VkSpecializationMapEntry(constantID=module.spec[n], offset=4 * i, size=4)
               for i, n in enumerate(spec)]
    return vk.VkSpecializationInfo(mapEntryCount=len(entries), pMapEntries=entries, dataSize=4 * len(entries),
                                   pData=ffi.cast("void*", values))
