"""A recording turned into command buffers, once; replaying it is one call."""

from __future__ import annotations

from ..recording import Buffer, Dispatch, Hazards, Recording, cut
from ..shaders import manifest
from .api import check, ffi, lib, vk
from .device import Device
from .memory import Memory
from .views import Views

SUBMISSION_SECONDS = 0.25  # aimed at; the promise is half a second
# FLOP/s assumed when cutting submissions, low on purpose: the price of a cut is 0.1 ms.
ASSUMED_RATE = {"cpu": 8e9, "integrated": 400e9, "virtual": 400e9, "other": 400e9, "discrete": 2e12}


class Commands:
    """The command buffers of one recording, each submitted on its own."""

    def __init__(self, device: Device, memory: Memory, recording: Recording) -> None:
        self.device, self.memory, self.recording = device, memory, recording
        self.views = Views(device, memory, recording)
        limit = ASSUMED_RATE[device.info.type] * SUBMISSION_SECONDS
        self.handles = [self._record(parts) for parts, _ in cut(recording, limit)]
        self._buffers = ffi.new("VkCommandBuffer[]", self.handles)
        self._infos = ffi.new("VkSubmitInfo[]", len(self.handles))
        for i in range(len(self.handles)):
            self._infos[i].sType = vk.VK_STRUCTURE_TYPE_SUBMIT_INFO
            self._infos[i].commandBufferCount = 1
            self._infos[i].pCommandBuffers = self._buffers + i

    def run(self) -> None:
        """Submit everything and wait. Allocates nothing."""
        self.device.submit(self._infos, len(self.handles))

    def free(self) -> None:
        lib.vkFreeCommandBuffers(self.device.handle, self.device.pool, len(self.handles), self._buffers)
        self.views.free()

    def _record(self, parts: list[tuple[Dispatch, int, int]]):
        commands = self.device.command_buffer()
        begin = vk.VkCommandBufferBeginInfo()
        check(lib.vkBeginCommandBuffer(commands, ffi.addressof(begin)), "recording")
        self._barrier(commands)  # what earlier submissions and the host wrote
        hazards = Hazards()
        for d, first, count in parts:
            if hazards.conflicts(d):
                self._barrier(commands)
                hazards = Hazards()
            hazards.add(d)
            self._dispatch(commands, d, first, count)
        self._barrier(commands, host=True)
        check(lib.vkEndCommandBuffer(commands), "recording")
        return commands

    def _dispatch(self, commands, d: Dispatch, first: int, count: int) -> None:
        pipeline, layout = self.device.pipeline(d.module, d.spec)
        lib.vkCmdBindPipeline(commands, vk.VK_PIPELINE_BIND_POINT_COMPUTE, pipeline)
        module = manifest()[d.module]
        if module.views:
            self.views.bind(commands, layout, d)
        push = module.pack(
            {
                k: self.memory.address(v) if isinstance(v, Buffer) else v
                for k, v in d.args.items()
                if k not in module.views
            }
        )
        lib.vkCmdPushConstants(
            commands, layout, vk.VK_SHADER_STAGE_COMPUTE_BIT, 0, len(push), ffi.from_buffer(push)
        )
        base, groups = [0, 0, 0], list(d.groups)
        base[d.split], groups[d.split] = first, count
        lib.vkCmdDispatchBase(commands, *base, *groups)

    def _barrier(self, commands, host: bool = False) -> None:
        compute, everything = vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT
        barrier = vk.VkMemoryBarrier(
            srcAccessMask=vk.VK_ACCESS_MEMORY_WRITE_BIT | vk.VK_ACCESS_MEMORY_READ_BIT,
            dstAccessMask=(vk.VK_ACCESS_HOST_READ_BIT if host else 0)
            | vk.VK_ACCESS_MEMORY_READ_BIT
            | vk.VK_ACCESS_MEMORY_WRITE_BIT,
        )
        stages = (compute, vk.VK_PIPELINE_STAGE_HOST_BIT | everything) if host else (everything, compute)
        lib.vkCmdPipelineBarrier(commands, *stages, 0, 1, ffi.addressof(barrier), 0, ffi.NULL, 0, ffi.NULL)
