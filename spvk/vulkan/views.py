"""The texel views of a recording's buffers, and the descriptor sets that hand them to shaders."""

from __future__ import annotations

from ..recording import Buffer, Dispatch, Recording
from ..shaders import manifest
from .api import check, create, ffi, lib, vk
from .device import Device
from .layouts import TEXELS
from .memory import Memory


class Views:
    """One view for each buffer that the recording reads as texels, one descriptor set for each group of them."""

    def __init__(self, device: Device, memory: Memory, recording: Recording) -> None:
        self.device, self.memory = device, memory
        self.views: dict[Buffer, object] = {}
        groups = {g for d in recording if (g := _group(d))}
        self.pool = self._pool(groups) if groups else None
        self.sets = {g: self._set(g) for g in groups}

    def bind(self, commands, layout, d: Dispatch) -> None:
        """Record that the dispatch that follows reads its views."""
        lib.vkCmdBindDescriptorSets(
            commands, vk.VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, self.sets[_group(d)], 0, ffi.NULL
        )

    def _pool(self, groups: set[tuple[Buffer, ...]]):
        size = vk.VkDescriptorPoolSize(type=TEXELS, descriptorCount=sum(map(len, groups)))
        info = vk.VkDescriptorPoolCreateInfo(maxSets=len(groups), poolSizeCount=1, pPoolSizes=[size])
        return create("VkDescriptorPool", lib.vkCreateDescriptorPool, self.device.handle, info)

    def _set(self, group: tuple[Buffer, ...]):
        for buffer in group:
            if buffer not in self.views:
                self.views[buffer] = self.memory.texels(buffer)
        layouts = [self.device.layouts.descriptors(len(group))]
        info = vk.VkDescriptorSetAllocateInfo(
            descriptorPool=self.pool, descriptorSetCount=1, pSetLayouts=layouts
        )
        out = ffi.new("VkDescriptorSet*")
        check(
            lib.vkAllocateDescriptorSets(self.device.handle, ffi.addressof(info), out),
            "allocating a descriptor set",
        )
        write = vk.VkWriteDescriptorSet(
            dstSet=out[0],
            dstBinding=0,
            descriptorCount=len(group),
            descriptorType=TEXELS,
            pTexelBufferView=[self.views[b] for b in group],
        )
        lib.vkUpdateDescriptorSets(self.device.handle, 1, ffi.addressof(write), 0, ffi.NULL)
        return out

    def free(self) -> None:
        for view in self.views.values():
            lib.vkDestroyBufferView(self.device.handle, view, ffi.NULL)
        if self.pool is not None:
            lib.vkDestroyDescriptorPool(self.device.handle, self.pool, ffi.NULL)


def _group(d: Dispatch) -> tuple[Buffer, ...]:
    """The buffers that a dispatch reads as texels, in the order of their bindings."""
    return tuple(d.args[name] for name in manifest()[d.module].views)
