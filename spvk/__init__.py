"""spvk: sparse prefill for GGUF models through Vulkan compute shaders."""

__version__ = "0.1.0"
