"""The only package that imports `vulkan`: device choice, memory, pipelines, command buffers."""

from .commands import Commands
from .device import Device
from .devices import DeviceInfo, choose, enumerate_devices, make_instance
from .memory import Memory

__all__ = ["Commands", "Device", "DeviceInfo", "Memory", "choose", "enumerate_devices", "make_instance"]
