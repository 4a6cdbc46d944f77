"""The logical device: queue, pipelines with their cache on disk, submission."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Mapping

from .. import shaders
from ..errors import DeviceError
from ..recording import PipelineKey, Recording, pipeline_key
from .api import PIPELINE_CREATE_DISPATCH_BASE, REQUIRE_FULL_SUBGROUPS, check, create, ffi, lib, vk
from .devices import choose, enumerate_devices, make_instance
from .layouts import Layouts
from .products import enable

WAIT_NS = (
    60 * 10**9
)  # a submission is cut to about half a second: a minute without an answer is a lost device


def cache_dir() -> Path:
    """Where pipeline caches are kept: $SPVK_CACHE_DIR, else the XDG cache directory's spvk folder."""
    if base := os.environ.get("SPVK_CACHE_DIR"):
        return Path(base)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "spvk"


class Device:
    """A Vulkan device, opened. Use as a context manager, or call `close()`.

    `max_allocation` (bytes) may be set lower than the driver's own limit.
    Raises DeviceError when no device answers or the wanted one cannot be used.
    """

    def __init__(self, wanted: str | None = None, max_allocation: int | None = None) -> None:
        self.instance = make_instance()
        self.info, self.reason = choose(enumerate_devices(self.instance), wanted)
        self.max_allocation = min(self.info.max_allocation, max_allocation or self.info.max_allocation)
        self.family = self._compute_family()
        self.handle = self._open()
        queue = ffi.new("VkQueue*")
        lib.vkGetDeviceQueue(self.handle, self.family, 0, queue)
        self.queue = queue[0]
        self.pool = create(
            "VkCommandPool",
            lib.vkCreateCommandPool,
            self.handle,
            vk.VkCommandPoolCreateInfo(
                queueFamilyIndex=self.family, flags=vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT
            ),
        )
        fences = [create("VkFence", lib.vkCreateFence, self.handle, vk.VkFenceCreateInfo()) for _ in range(2)]
        self.fences = ffi.new("VkFence[]", fences)
        self.allocated = 0  # bytes of all blocks of every Memory
        self.layouts = Layouts(self.handle)
        self.modules: dict[str, object] = {}
        self.pipelines: dict[PipelineKey, object] = {}
        self.launched: set[PipelineKey] = set()  # keys of those that have run (prepare.py)
        self.cache = self._load_cache()

    # -- opening ---------------------------------------------------------------------------------------

    def _compute_family(self) -> int:
        count = ffi.new("uint32_t*")
        lib.vkGetPhysicalDeviceQueueFamilyProperties(self.info.handle, count, ffi.NULL)
        families = ffi.new("VkQueueFamilyProperties[]", count[0])
        lib.vkGetPhysicalDeviceQueueFamilyProperties(self.info.handle, count, families)
        compute = [i for i in range(count[0]) if families[i].queueFlags & vk.VK_QUEUE_COMPUTE_BIT]
        if not compute:
            raise DeviceError(f"{self.info.name}: no queue that computes")
        return compute[0]

    def _open(self):
        queue = vk.VkDeviceQueueCreateInfo(queueFamilyIndex=self.family, queueCount=1, pQueuePriorities=[1.0])
        matrix, (more, extensions) = int(self.info.matrix is not None), enable(self.info)
        f12 = vk.VkPhysicalDeviceVulkan12Features(
            pNext=more,
            bufferDeviceAddress=1,
            scalarBlockLayout=1,
            shaderFloat16=matrix,
            vulkanMemoryModel=matrix,
        )
        features = vk.VkPhysicalDeviceFeatures(shaderInt64=1)
        return create(
            "VkDevice",
            lib.vkCreateDevice,
            self.info.handle,
            vk.VkDeviceCreateInfo(
                pNext=f12,
                queueCreateInfoCount=1,
                pQueueCreateInfos=[queue],
                enabledExtensionCount=len(extensions),
                ppEnabledExtensionNames=extensions,
                pEnabledFeatures=features,
            ),
        )

    def memory_type(self, allowed: int, host: bool) -> tuple[int, bool]:
        """(index, whether the host sees it) of the best memory type among the bits of `allowed`."""
        props = ffi.new("VkPhysicalDeviceMemoryProperties*")
        lib.vkGetPhysicalDeviceMemoryProperties(self.info.handle, props)
        visible = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
        local = vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
        # On an integrated GPU all memory is the same: host-visible and device-local needs no staging.
        shared = self.info.type in ("integrated", "cpu")
        wants = [visible | local, visible] if host or shared else [local, visible | local]
        for want in wants + [local, 0]:
            for i in range(props.memoryTypeCount):
                flags = props.memoryTypes[i].propertyFlags
                if allowed >> i & 1 and flags & want == want and (not host or flags & visible == visible):
                    return i, flags & visible == visible
        raise DeviceError(f"{self.info.name}: no memory type for a {'host' if host else 'device'} buffer")

    def require_fit(self, nbytes: int, what: str) -> None:
        """Raise DeviceError when the device has no room for `nbytes` more, before any are taken."""
        if nbytes > self.info.memory - self.allocated:
            used = f", of which {self.allocated / 2**20:.0f} are in use" if self.allocated else ""
            raise DeviceError(
                f"{what}: {nbytes / 2**20:.0f} MiB of device memory, {self.info.name} has "
                f"{self.info.memory / 2**20:.0f} MiB{used}"
            )

    # -- pipelines -------------------------------------------------------------------------------------

    def pipeline(self, module: str, spec: Mapping[str, int]):
        """(VkPipeline, VkPipelineLayout) of a module with these specialisation constants; made once."""
        key = pipeline_key(module, spec)
        if key not in self.pipelines:
            self.pipelines[key] = self._make_pipeline(shaders.manifest()[module], spec)
        return self.pipelines[key]

    def compile(self, recording: Recording) -> None:
        """Make the pipelines that a recording needs, on all cores: drivers compile outside Python's lock."""
        wanted = {d.pipeline: d for d in recording}
        missing = [d for key, d in wanted.items() if key not in self.pipelines]
        for name in {d.module for d in missing}:  # what pipelines share is not made twice by two threads
            module = shaders.manifest()[name]
            self._module(module)
            self.layouts.pipeline(module.push_bytes, len(module.views))
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(lambda d: self.pipeline(d.module, d.spec), missing))

    def _make_pipeline(self, module: shaders.Module, spec: Mapping[str, int]):
        unknown = spec.keys() - module.spec.keys()
        if unknown:
            raise KeyError(
                f"{module.name}: no specialisation constant {sorted(unknown)}, it has {sorted(module.spec)}"
            )
        layout = self.layouts.pipeline(module.push_bytes, len(module.views))
        values = ffi.new("uint32_t[]", [v & 0xFFFFFFFF for v in spec.values()] or [0])
        entries = [
            vk.VkSpecializationMapEntry(constantID=module.spec[n], offset=4 * i, size=4)
            for i, n in enumerate(spec)
        ]
        info = vk.VkSpecializationInfo(
            mapEntryCount=len(entries),
            pMapEntries=entries,
            dataSize=4 * len(entries),
            pData=ffi.cast("void*", values),
        )
        wanted = self._subgroup(spec)
        stage = vk.VkPipelineShaderStageCreateInfo(
            pNext=wanted,
            flags=REQUIRE_FULL_SUBGROUPS if wanted else 0,
            stage=vk.VK_SHADER_STAGE_COMPUTE_BIT,
            module=self._module(module),
            pName="main",
            pSpecializationInfo=info,
        )
        create_info = vk.VkComputePipelineCreateInfo(
            flags=PIPELINE_CREATE_DISPATCH_BASE, stage=stage, layout=layout
        )
        out = ffi.new("VkPipeline*")
        check(
            lib.vkCreateComputePipelines(
                self.handle, self.cache, 1, ffi.addressof(create_info), ffi.NULL, out
            ),
            f"compiling {module.name}",
        )
        return out[0], layout

    def _subgroup(self, spec: Mapping[str, int]):
        """The struct that asks for subgroups of the size in constant SUBGROUP; None without a choice."""
        low, _, high = self.info.subgroup
        if "SUBGROUP" not in spec or low == high:
            return None
        return vk.VkPipelineShaderStageRequiredSubgroupSizeCreateInfo(requiredSubgroupSize=spec["SUBGROUP"])

    def _module(self, module: shaders.Module):
        if module.name not in self.modules:
            code = module.spirv()
            self.modules[module.name] = create(
                "VkShaderModule",
                lib.vkCreateShaderModule,
                self.handle,
                vk.VkShaderModuleCreateInfo(codeSize=len(code), pCode=code),
            )
        return self.modules[module.name]

    @property
    def _cache_file(self) -> Path:
        return cache_dir() / f"pipelines-{self.info.cache_key}.bin"

    def _load_cache(self):
        try:
            data = self._cache_file.read_bytes()
        except OSError:
            data = b""
        blob = ffi.new("uint8_t[]", data or b"\0")
        info = vk.VkPipelineCacheCreateInfo(initialDataSize=len(data), pInitialData=ffi.cast("void*", blob))
        return create("VkPipelineCache", lib.vkCreatePipelineCache, self.handle, info)

    def save_cache(self) -> None:
        """Write the pipeline cache to disk (whole file at once); a read-only cache directory is no error."""
        size = ffi.new("size_t*")
        check(
            lib.vkGetPipelineCacheData(self.handle, self.cache, size, ffi.NULL), "reading the pipeline cache"
        )
        data = ffi.new("uint8_t[]", max(1, size[0]))
        check(lib.vkGetPipelineCacheData(self.handle, self.cache, size, data), "reading the pipeline cache")
        temporary = self._cache_file.with_suffix(f".{os.getpid()}.tmp")
        with suppress(OSError):
            temporary.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(bytes(ffi.buffer(data, size[0])))
            temporary.replace(self._cache_file)
        with suppress(OSError):
            temporary.unlink(missing_ok=True)

    # -- submission ------------------------------------------------------------------------------------

    def command_buffer(self):
        info = vk.VkCommandBufferAllocateInfo(commandPool=self.pool, level=0, commandBufferCount=1)
        out = ffi.new("VkCommandBuffer*")
        check(
            lib.vkAllocateCommandBuffers(self.handle, ffi.addressof(info), out), "allocating a command buffer"
        )
        return out[0]

    def submit(self, infos, count: int) -> None:
        """Submit `count` VkSubmitInfo one by one and wait for all. Raises DeviceError if the device is lost.

        One submission runs while the next one waits its turn, and each is waited for on its own, so that an
        interrupt is heard within two of them.
        """
        try:
            for i in range(count):
                result = lib.vkQueueSubmit(self.queue, 1, infos + i, self.fences[i % 2])
                check(result, f"submitting work to {self.info.name}")
                if i:
                    self._wait(self.fences + (i - 1) % 2)
            self._wait(self.fences + (count - 1) % 2)
        except BaseException:
            lib.vkDeviceWaitIdle(self.handle)  # nothing may be freed while the device still works on it
            lib.vkResetFences(self.handle, 2, self.fences)
            raise

    def _wait(self, fence) -> None:
        check(lib.vkWaitForFences(self.handle, 1, fence, 1, WAIT_NS), f"waiting for {self.info.name}")
        check(lib.vkResetFences(self.handle, 1, fence), "resetting a fence")

    def copy(self, source, source_offset: int, target, target_offset: int, nbytes: int) -> None:
        """Copy between two VkBuffers and wait."""
        self.finish_copy(self.start_copy(source, source_offset, target, target_offset, nbytes))

    def start_copy(self, source, source_offset: int, target, target_offset: int, nbytes: int):
        """The same without waiting: finish_copy takes what this returns."""
        commands = self.command_buffer()
        begin = vk.VkCommandBufferBeginInfo(flags=vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT)
        check(lib.vkBeginCommandBuffer(commands, ffi.addressof(begin)), "recording a copy")
        region = vk.VkBufferCopy(srcOffset=source_offset, dstOffset=target_offset, size=nbytes)
        lib.vkCmdCopyBuffer(commands, source, target, 1, ffi.addressof(region))
        check(lib.vkEndCommandBuffer(commands), "recording a copy")
        handles = ffi.new("VkCommandBuffer[]", [commands])
        info = ffi.new("VkSubmitInfo*")
        info.sType, info.commandBufferCount, info.pCommandBuffers = (
            vk.VK_STRUCTURE_TYPE_SUBMIT_INFO,
            1,
            handles,
        )
        fence = create("VkFence", lib.vkCreateFence, self.handle, vk.VkFenceCreateInfo())
        check(lib.vkQueueSubmit(self.queue, 1, info, fence), f"submitting a copy to {self.info.name}")
        return handles, fence

    def finish_copy(self, copy) -> None:
        """Wait for a copy. Raises DeviceError if the device is lost."""
        handles, fence = copy
        try:
            fences = ffi.new("VkFence[]", [fence])
            check(lib.vkWaitForFences(self.handle, 1, fences, 1, WAIT_NS), f"waiting for {self.info.name}")
        except BaseException:
            lib.vkDeviceWaitIdle(self.handle)  # nothing may be freed while the device still works on it
            raise
        finally:
            lib.vkDestroyFence(self.handle, fence, ffi.NULL)
            lib.vkFreeCommandBuffers(self.handle, self.pool, 1, handles)

    # -- closing ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Save the pipeline cache and destroy everything; what used the device is dead afterwards."""
        if self.handle is None:
            return
        lib.vkDeviceWaitIdle(self.handle)
        self.save_cache()
        for pipeline, _ in self.pipelines.values():
            lib.vkDestroyPipeline(self.handle, pipeline, ffi.NULL)
        self.layouts.destroy()
        for module in self.modules.values():
            lib.vkDestroyShaderModule(self.handle, module, ffi.NULL)
        lib.vkDestroyPipelineCache(self.handle, self.cache, ffi.NULL)
        for fence in self.fences:
            lib.vkDestroyFence(self.handle, fence, ffi.NULL)
        lib.vkDestroyCommandPool(self.handle, self.pool, ffi.NULL)
        lib.vkDestroyDevice(self.handle, ffi.NULL)
        lib.vkDestroyInstance(self.instance, ffi.NULL)
        self.handle = None

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
