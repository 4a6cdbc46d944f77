"""What a device can do at best: multiply-adds in registers, and reading memory from end to end.

The model of the two ceilings is the roofline's (Williams, Waterman and Patterson, CACM 52(4), 2009).
"""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes, expect_multiple
from .profile import Profile

CHAINS, ROUNDS = 10, 32  # as in probe.comp: multiply-adds in flight a lane, and between two checks
WORD = 32  # bytes a lane reads at once
FACTOR, TERM = 0.5, 1.0  # a product with a half is exact, so fused and unfused multiply-adds agree


def probe(profile: Profile, x: Buffer, y: Buffer, *, rows: int, n: int, read: bool = False) -> Dispatch:
    """y [rows * profile.local] uint32, one word a lane of `rows` workgroups; see the twins for what it is.

    With `read` each lane reads n words of 32 bytes of x [rows, n, profile.local, 32 bytes], else it does n
    multiply-adds in each of CHAINS chains, and x is not read. Raises ValueError for a short or
    unaligned buffer, or multiply-adds that are no multiple of ROUNDS.
    """
    lanes = rows * profile.local
    expect_multiple("probe", n=(n, 1 if read else ROUNDS), x_offset=(x.offset, WORD))
    expect_bytes("probe", x=(x, WORD * lanes * n if read else 0), y=(y, 4 * lanes))
    args = dict(x=x, y=y, n=n, factor=FACTOR, term=TERM)
    flops = lanes * n if read else 2 * CHAINS * lanes * n
    return Dispatch("probe", (rows, 1, 1), args, {"LOCAL": profile.local, "READ": int(read)}, flops=flops)


def reference(lanes: int, n: int) -> np.ndarray:
    """Multiply-adds, to the bit: float32 [lanes], sums over chains c of x <- x / 2 + 1, n times from lane + c."""
    x = (np.arange(lanes)[:, None] + np.arange(CHAINS)).astype(np.float32)
    for _ in range(n):
        x = x * np.float32(FACTOR) + np.float32(TERM)
    total = np.zeros(lanes, np.float32)
    for c in range(CHAINS):
        total += x[:, c]
    return total


def read_reference(x: np.ndarray) -> np.ndarray:
    """Reading: x uint32 [workgroups, n, lanes, 8] -> each lane's exclusive or, uint32 [workgroups, lanes]."""
    return np.bitwise_xor.reduce(x, axis=(1, 3))
