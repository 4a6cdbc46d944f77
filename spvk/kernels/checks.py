"""Argument checks that every launcher shares; they run before the device is touched."""

from __future__ import annotations

from ..recording import Buffer


def expect_bytes(kernel: str, **buffers: tuple[Buffer, int]) -> None:
    """Raise ValueError unless each (buffer, bytes needed) fits."""
    for name, (buffer, need) in buffers.items():
        if buffer.nbytes < need:
            raise ValueError(f"{kernel}: {name} has {buffer.nbytes} bytes, expected at least {need}")


def expect_multiple(kernel: str, **values: tuple[int, int]) -> None:
    """Raise ValueError unless each (value, divisor) divides."""
    for name, (value, divisor) in values.items():
        if value % divisor:
            raise ValueError(f"{kernel}: {name} is {value}, expected a multiple of {divisor}")
