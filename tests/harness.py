"""What tests and benchmarks of kernels share: buffers and runs on a device, the measure of error."""

from __future__ import annotations

import numpy as np

from spvk.kernels import step as step_params
from spvk.kernels.profile import Profile
from spvk.recording import Buffer, Recording
from spvk.vulkan import Commands, Device, Memory


class Bench:
    """Buffers and runs for kernel tests: fresh outputs are filled with NaN, so unwritten values show."""

    def __init__(self, device: Device, profile: Profile) -> None:
        self.memory, self.device, self.profile = Memory(device), device, profile

    def put(self, array: np.ndarray, name: str = "in") -> Buffer:
        """A buffer with this array's bytes."""
        array = np.ascontiguousarray(array)
        buffer = Buffer(name, array.nbytes)
        self.memory.allocate(buffer)
        self.memory.upload(buffer, array)
        return buffer

    def empty(self, *shape: int, name: str = "out") -> Buffer:
        """A float32 buffer of this shape, all NaN."""
        return self.put(np.full(shape, np.nan, np.float32), name)

    def step(self, tokens: int, **numbers: int) -> Buffer:
        return self.put(step_params.pack(tokens, **numbers), "step")

    def run(self, *recording) -> None:
        """Run dispatches in order (lists of them are flattened)."""
        flat: Recording = [
            d for item in recording for d in (item if isinstance(item, (list, tuple)) else [item])
        ]
        commands = Commands(self.device, self.memory, flat)
        commands.run()
        commands.free()

    def get(self, buffer: Buffer, *shape: int, dtype=np.float32) -> np.ndarray:
        return self.memory.download(buffer, dtype).reshape(shape)


def nmse(got: np.ndarray, exact: np.ndarray) -> float:
    """Normalised mean squared error: sum((got - exact)^2) / sum(exact^2), in float64."""
    got, exact = np.asarray(got, np.float64), np.asarray(exact, np.float64)
    return float(((got - exact) ** 2).sum() / (exact**2).sum())
