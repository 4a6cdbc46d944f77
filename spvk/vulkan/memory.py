"""Device memory: large blocks, buffers cut from them, uploads and downloads.

Every shader reaches its buffers by device address, so a tensor may be larger than the device's
maxStorageBufferRange; one larger than maxMemoryAllocationSize is cut into pieces by its owner.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import DeviceError
from ..recording import ALIGNMENT, Buffer
from .api import (
    BUFFER_USAGE_SHADER_DEVICE_ADDRESS,
    MEMORY_ALLOCATE_DEVICE_ADDRESS,
    WHOLE_SIZE,
    check,
    create,
    ffi,
    lib,
    vk,
)

BLOCK = 64 << 20  # bytes: small buffers share blocks of this size
STAGING = 16 << 20  # bytes of the buffer through which a device-only block is filled and read
SLACK = 32  # bytes past a buffer's end that a wide load may touch
_HOST = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
TEXEL = 16  # bytes
_USAGE = (
    vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
    | vk.VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT
    | vk.VK_BUFFER_USAGE_TRANSFER_SRC_BIT
    | vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT
    | BUFFER_USAGE_SHADER_DEVICE_ADDRESS
)


@dataclass(eq=False)
class Block:
    """One VkDeviceMemory with one VkBuffer over all of it; `mapped` is None where the host cannot see it."""

    nbytes: int
    memory: object
    buffer: object
    address: int
    mapped: np.ndarray | None
    used: int = 0


class Memory:
    """The allocations of one owner on one device; `free()` gives all of them back.

    `borrowed` is another owner's memory, whose buffers can be named here too: a session's model.
    """

    def __init__(self, device, borrowed: Memory | None = None) -> None:
        self.device, self.borrowed = device, borrowed
        self.blocks: list[Block] = []
        self.places: dict[Buffer, tuple[Block, int]] = {}
        self.requested = 0  # bytes asked for, without padding and block remainders
        self.staging: Block | None = None

    @property
    def max_allocation(self) -> int:
        return self.device.max_allocation

    @property
    def mapped(self) -> bool:
        """Does the host see all of it? Then uploads to several buffers may run side by side."""
        return all(block.mapped is not None for block in self.blocks)

    def allocate(self, *buffers: Buffer, host: bool = False) -> None:
        """Give each root buffer its memory. `host=True`: memory that the host reads and writes directly."""
        for b in buffers:
            size = -(-(b.nbytes + SLACK) // ALIGNMENT) * ALIGNMENT
            block = self._block_for(size, host)
            self.places[b] = (block, block.used)
            block.used += size
            self.requested += b.nbytes

    def _block_for(self, size: int, host: bool) -> Block:
        for block in self.blocks:
            if block.nbytes - block.used >= size and (block.mapped is not None or not host):
                return block
        if size > self.max_allocation:
            raise DeviceError(
                f"allocating {size} bytes: the device allows at most {self.max_allocation} at once"
            )
        self.blocks.append(self._new_block(max(size, min(BLOCK, self.max_allocation)), host))
        return self.blocks[-1]

    def _new_block(self, nbytes: int, host: bool) -> Block:
        vk_device = self.device.handle
        buffer = create(
            "VkBuffer", lib.vkCreateBuffer, vk_device, vk.VkBufferCreateInfo(size=nbytes, usage=_USAGE)
        )
        need = ffi.new("VkMemoryRequirements*")
        lib.vkGetBufferMemoryRequirements(vk_device, buffer, need)
        kind, visible = self.device.memory_type(need.memoryTypeBits, host)
        flags = vk.VkMemoryAllocateFlagsInfo(flags=MEMORY_ALLOCATE_DEVICE_ADDRESS)
        info = vk.VkMemoryAllocateInfo(pNext=flags, allocationSize=need.size, memoryTypeIndex=kind)
        try:
            memory = create("VkDeviceMemory", lib.vkAllocateMemory, vk_device, info)
        except DeviceError as error:
            lib.vkDestroyBuffer(vk_device, buffer, ffi.NULL)
            raise DeviceError(
                f"device memory: {need.size >> 20} MiB more could not be had ({error}); "
                f"{sum(b.nbytes for b in self.blocks) >> 20} MiB are in use"
            ) from None
        self.device.allocated += nbytes
        check(lib.vkBindBufferMemory(vk_device, buffer, memory, 0), "binding memory")
        where = vk.VkBufferDeviceAddressInfo(buffer=buffer)
        address = lib.vkGetBufferDeviceAddress(vk_device, ffi.addressof(where))
        return Block(nbytes, memory, buffer, address, self._map(memory, nbytes) if visible else None)

    def _map(self, memory, nbytes: int) -> np.ndarray:
        pointer = ffi.new("void**")
        check(lib.vkMapMemory(self.device.handle, memory, 0, WHOLE_SIZE, 0, pointer), "mapping memory")
        return np.frombuffer(ffi.buffer(pointer[0], nbytes), np.uint8)

    def address(self, buffer: Buffer) -> int:
        if buffer.root not in self.places and self.borrowed:
            return self.borrowed.address(buffer)
        block, start = self.places[buffer.root]
        return block.address + start + buffer.offset

    def texels(self, buffer: Buffer):
        """A new VkBufferView of the buffer as 128-bit texels, the last one whole; the caller destroys it."""
        if buffer.root not in self.places and self.borrowed:
            return self.borrowed.texels(buffer)
        block, start = self.places[buffer.root]
        info = vk.VkBufferViewCreateInfo(
            buffer=block.buffer,
            format=vk.VK_FORMAT_R32G32B32A32_UINT,
            offset=start + buffer.offset,
            range=-(-buffer.nbytes // TEXEL) * TEXEL,
        )
        return create("VkBufferView", lib.vkCreateBufferView, self.device.handle, info)

    def view(self, buffer: Buffer, dtype=np.uint8) -> np.ndarray:
        """A host buffer's contents as a 1-d array that shares its memory."""
        block, start = self.places[buffer.root]
        if block.mapped is None:
            raise ValueError(f"{buffer.name}: not in host-visible memory")
        start += buffer.offset
        return block.mapped[start : start + buffer.nbytes].view(dtype)

    def upload(self, buffer: Buffer, data: np.ndarray) -> None:
        """Copy `data` (at most the buffer's bytes) to the start of `buffer`."""
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        if flat.nbytes > buffer.nbytes:
            raise ValueError(f"{buffer.name}: {flat.nbytes} bytes into a buffer of {buffer.nbytes}")
        block, start = self.places[buffer.root]
        if block.mapped is not None:
            self.view(buffer)[: flat.nbytes] = flat
            return
        staging, half = self._staging(), STAGING // 2
        copies: list = [None, None]  # one half is filled while the other is being copied
        try:
            for i, at in enumerate(range(0, flat.nbytes, half)):
                piece, mine, offset = flat[at : at + half], i % 2, i % 2 * half
                if copies[mine]:
                    self._finish(copies, mine)
                staging.mapped[offset : offset + piece.nbytes] = piece
                copies[mine] = self.device.start_copy(
                    staging.buffer, offset, block.buffer, start + buffer.offset + at, piece.nbytes
                )
        finally:
            for i in range(2):
                if copies[i]:
                    self._finish(copies, i)

    def _finish(self, copies: list, i: int) -> None:
        copy, copies[i] = copies[i], None
        self.device.finish_copy(copy)

    def download(self, buffer: Buffer, dtype=np.float32) -> np.ndarray:
        """A copy of the buffer's contents as a 1-d array."""
        block, start = self.places[buffer.root]
        if block.mapped is not None:
            return self.view(buffer, dtype).copy()
        out = np.empty(buffer.nbytes, np.uint8)
        for at in range(0, buffer.nbytes, STAGING):
            size = min(STAGING, buffer.nbytes - at)
            self.device.copy(block.buffer, start + buffer.offset + at, self._staging().buffer, 0, size)
            out[at : at + size] = self.staging.mapped[:size]
        return out.view(dtype)

    def _staging(self) -> Block:
        if self.staging is None:
            self.staging = self._new_block(STAGING, host=True)
        return self.staging

    def free(self) -> None:
        for block in self.blocks + [b for b in (self.staging,) if b]:
            lib.vkDestroyBuffer(self.device.handle, block.buffer, ffi.NULL)
            lib.vkFreeMemory(self.device.handle, block.memory, ffi.NULL)
            self.device.allocated -= block.nbytes
        self.blocks, self.places, self.staging, self.requested = [], {}, None, 0
