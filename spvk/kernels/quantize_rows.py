"""Activations rounded once for all products that read them; which products do depends on the device class."""

from __future__ import annotations

from ..recording import Buffer, Dispatch
from .profile import Profile


def reads_packed(profile: Profile, rows: int, weight_type: str) -> bool:
    """Does the product of `rows` rows with weights of this type read packed activations, not float32?"""
    return False


def packed_bytes(profile: Profile, rows: int, k: int) -> int:
    """Bytes of `rows` packed rows of `k` values; 0 where no product reads them."""
    return 0


def quantize_rows(profile: Profile, x: Buffer, packed: Buffer, step: Buffer, *, rows: int, k: int) -> Dispatch:
    """x [rows, k] float32 -> packed; the first step.tokens rows."""
    raise NotImplementedError(profile.name)
