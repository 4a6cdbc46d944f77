"""Layouts of pipelines and of their descriptor sets: push constants, and views of texels."""

from __future__ import annotations

from .api import create, ffi, lib, vk

_STAGE = vk.VK_SHADER_STAGE_COMPUTE_BIT
TEXELS = vk.VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER


class Layouts:
    """The layouts of one device, each made once; the caller destroys them when nothing uses them."""

    def __init__(self, device) -> None:
        self.device = device
        self.sets: dict[int, object] = {}
        self.pipelines: dict[tuple[int, int], object] = {}

    def descriptors(self, views: int):
        """The layout of a descriptor set of so many texel views."""
        if views not in self.sets:
            bindings = [
                vk.VkDescriptorSetLayoutBinding(
                    binding=i, descriptorType=TEXELS, descriptorCount=1, stageFlags=_STAGE
                )
                for i in range(views)
            ]
            info = vk.VkDescriptorSetLayoutCreateInfo(bindingCount=views, pBindings=bindings)
            self.sets[views] = create(
                "VkDescriptorSetLayout", lib.vkCreateDescriptorSetLayout, self.device, info
            )
        return self.sets[views]

    def pipeline(self, push_bytes: int, views: int):
        """The layout of a pipeline with so many bytes of push constants and so many texel views."""
        key = (push_bytes, views)
        if key not in self.pipelines:
            ranges = [vk.VkPushConstantRange(stageFlags=_STAGE, offset=0, size=push_bytes)]
            sets = [self.descriptors(views)] if views else []
            info = vk.VkPipelineLayoutCreateInfo(
                setLayoutCount=len(sets),
                pSetLayouts=sets,
                pushConstantRangeCount=1,
                pPushConstantRanges=ranges,
            )
            self.pipelines[key] = create("VkPipelineLayout", lib.vkCreatePipelineLayout, self.device, info)
        return self.pipelines[key]

    def destroy(self) -> None:
        for layout in self.pipelines.values():
            lib.vkDestroyPipelineLayout(self.device, layout, ffi.NULL)
        for layout in self.sets.values():
            lib.vkDestroyDescriptorSetLayout(self.device, layout, ffi.NULL)
