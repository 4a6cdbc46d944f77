"""Microbenchmarks: each kernel at the 0.8B's and the 4B's shapes, beside what the device can do at best.

    pytest bench --benchmark-only [-k matmul] [--types Q4_K,Q6_K,Q8_0] [--precision exact|fast]
                 [--class cpu|scalar|dot|coopmat] [--device NAME|INDEX]

A kernel is compared with its NumPy twin first, large ones on some rows and columns, and not timed if it is wrong.
extra_info (`--benchmark-json`) and the table at the end: GFLOP/s where arithmetic is what a kernel is for,
GB/s (each buffer once), and the share of the peak: the time that the probe kernel's rates, measured just
before, allow for the flops or for the bytes, whichever is longer, by the time taken. It is above 100 % where
a nearer cache holds what is read, where texel views load faster than addresses, by which the probe reads, or
where one multiplication does for two. All of it is from the fastest round. On a software driver batches are
smaller, so that a round takes less than half a second.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest
from harness import Bench, nmse
from products import Rounded
from tables import markdown

from spvk.kernels.probe import WORD, probe
from spvk.kernels.profile import Profile, profile_for
from spvk.kernels.quantize_rows import packed_bytes, quantize_rows, reads_packed
from spvk.recording import Buffer, Recording
from spvk.shaders import WEIGHT_TYPES
from spvk.synth import SIZES
from spvk.tuning import tuned
from spvk.vulkan import Commands, Device

CLASSES = ("cpu", "scalar", "dot", "coopmat")
# NMSE against the twin; of products of rounded activations one wrong column in 64 is still far above it.
BUDGETS = {"exact": 1e-11, "fast": 1e-3}
SECONDS = 0.5  # of timed rounds a benchmark, roughly
COLUMNS = {"module": "{}", "ms": "{:.3f}", "gflops": "{:.1f}", "gbs": "{:.2f}", "peak": "{:.1%}"}
HEAD = ("", "module", "ms", "GFLOP/s", "GB/s", "of peak")
LINES = pytest.StashKey[list]()


def pytest_addoption(parser):
    group = parser.getgroup("spvk")
    group.addoption("--types", default="Q4_K,Q6_K,Q8_0", help="weight types of the products")
    group.addoption("--class", dest="profile", choices=CLASSES, help="variants [the device's class]")
    group.addoption("--precision", default="exact", choices=tuple(BUDGETS), help="of products")
    group.addoption("--device", help="name or index")


def pytest_configure(config):
    config.stash[LINES] = []
    types = config.getoption("--types").split(",")
    if unknown := [t for t in types if t not in WEIGHT_TYPES]:
        raise pytest.UsageError(f"--types: found {unknown[0]}, expected some of {','.join(WEIGHT_TYPES)}")


def pytest_generate_tests(metafunc):
    if "size" in metafunc.fixturenames:
        metafunc.parametrize("size", ["0.8b", "4b"])
    if "weight_type" in metafunc.fixturenames:
        metafunc.parametrize("weight_type", metafunc.config.getoption("--types").split(","))


@pytest.fixture
def shape(size):
    """The sizes of the architecture's letters, see spvk/synth.py."""
    return SIZES[size]


@pytest.fixture(scope="session")
def device(request):
    with Device(request.config.getoption("--device")) as d:
        yield d


@pytest.fixture(scope="session")
def profile(request, device) -> Profile:
    own = tuned(device, profile_for(device.info, request.config.getoption("--precision")))
    wanted = request.config.getoption("profile")
    if wanted == "coopmat" and not device.info.matrix:
        pytest.exit(f"--class coopmat: {device.info.name} has no cooperative matrices", 2)
    return replace(own, name=wanted, local=8 if wanted == "cpu" else 256, choices=()) if wanted else own


@pytest.fixture(scope="session")
def rows(device) -> int:
    """Tokens of a batch."""
    return 32 if device.info.type == "cpu" else 512


@pytest.fixture
def bench(device, profile):
    b = Bench(device, profile)
    yield b
    b.memory.free()


@pytest.fixture
def pack(bench):
    """pack(x [rows, k], its buffer, weight type): what products of --precision fast read.

    Returns (packed rows, budget of a product, the dispatches that packed them); (None, …, []) where they
    read float32.
    """

    def run(x: np.ndarray, put: Buffer, weight_type: str) -> tuple[Buffer | None, float, Recording]:
        rows, k = x.shape
        if not reads_packed(bench.profile, rows, weight_type):
            return None, BUDGETS["exact"], []
        packed = bench.put(np.zeros(packed_bytes(bench.profile, rows, k), np.uint8))
        dispatch = quantize_rows(bench.profile, put, packed, bench.step(rows), rows=rows, k=k)
        bench.run(dispatch)
        return packed, BUDGETS["fast"], [dispatch]

    return run


@pytest.fixture
def rounded(bench, rng):
    """rounded(rows, k): where --precision fast has its rows (Rounded), whichever precision is asked for."""

    def make(rows: int, k: int) -> Rounded:
        bench.profile = replace(bench.profile, precision="fast")
        if not reads_packed(bench.profile, rows, Rounded.KIND):
            pytest.skip("no product of this device class reads such rows rounded")
        return Rounded(bench, rng, rows, k)

    return make


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def normal(rng):
    """Normal float32 values of a shape."""
    return lambda *shape: rng.normal(size=shape).astype(np.float32)


class Probes:
    """The probe kernel, ready to run: multiply-adds, and a read of 8 MiB (a GPU: more than its caches hold).

    On a processor both take milliseconds, as kernels do: what else runs there then slows both alike.
    """

    def __init__(self, bench: Bench) -> None:
        small = bench.device.info.type == "cpu"
        groups, steps, self.nbytes = (64, 2**13, 2**23) if small else (4096, 2**12, 2**29)
        x, y = bench.put(np.ones(self.nbytes, np.uint8)), bench.empty(max(256, groups), bench.profile.local)
        reads = self.nbytes // (WORD * bench.profile.local * 256)
        arithmetic = probe(bench.profile, x, y, rows=groups, n=steps)
        reading = probe(bench.profile, x, y, rows=256, n=reads, read=True)
        self.flops = arithmetic.flops
        self.commands = [Commands(bench.device, bench.memory, [d]) for d in (arithmetic, reading)]

    def measure(self) -> tuple[float, float]:
        """(FLOP/s, bytes/s), the best of ten runs."""
        arithmetic, reading = (min(seconds(c.run) for _ in range(10)) for c in self.commands)
        return self.flops / arithmetic, self.nbytes / reading


@pytest.fixture(scope="session")
def probes(device, profile):
    b = Bench(device, profile)
    yield Probes(b)
    b.memory.free()


def seconds(function) -> float:
    start = perf_counter()
    function()
    return perf_counter() - start


@pytest.fixture
def measure(request, benchmark, bench, probes):
    """Check and time dispatches: measure(recording, check, flops=…, nbytes=…, budget=…).

    `check()` is called after one run and returns pairs (found, exact). Without `nbytes` every buffer is
    taken to be read or written once.
    """

    def run(recording, check, *, flops: int = 0, nbytes: int | None = None, budget=BUDGETS["exact"]) -> None:
        recording = recording if isinstance(recording, list) else [recording]
        commands = Commands(bench.device, bench.memory, recording)
        commands.run()
        for found, exact in check():
            if not (error := nmse(found, exact)) <= budget:
                pytest.fail(f"{recording[0].module}: NMSE {error:.2e}, budget {budget:.0e}; not timed")
        peaks = probes.measure()  # now: what slows the machine for a while slows both
        rounds = int(min(50, max(3, SECONDS / seconds(commands.run))))
        benchmark.pedantic(commands.run, rounds=rounds)
        commands.free()
        if benchmark.stats:
            nbytes = traffic(recording) if nbytes is None else nbytes
            report(request, benchmark, recording, flops, nbytes, peaks)

    return run


def traffic(recording: Recording) -> int:
    """Bytes of every buffer that a recording touches, those of updated ones twice."""
    return sum(buffer.nbytes * len(access) for d in recording for buffer, access in d.touched())


def report(request, benchmark, recording, flops: int, nbytes: int, peaks: tuple[float, float]) -> None:
    seconds = benchmark.stats.stats.min
    ideal = max(flops / peaks[0], nbytes / peaks[1])
    info = {
        "module": recording[0].module,
        "ms": 1e3 * seconds,
        "gflops": flops / seconds / 1e9 or None,
        "gbs": nbytes / seconds / 1e9,
        "peak": ideal / seconds,
    }
    benchmark.extra_info |= info | {"peak_gflops": peaks[0] / 1e9, "peak_gbs": peaks[1] / 1e9}
    name = request.node.name.removeprefix("bench_")
    cells = ("" if info[key] is None else form.format(info[key]) for key, form in COLUMNS.items())
    request.config.stash[LINES].append(((name, *cells), peaks))


def pytest_terminal_summary(terminalreporter, config):
    if lines := config.stash[LINES]:
        flops, rate = (max(rates) for rates in zip(*(peaks for _, peaks in lines), strict=True))
        terminalreporter.section("kernels")
        terminalreporter.line(f"best of the probe kernel: {flops / 1e9:.1f} GFLOP/s, {rate / 1e9:.1f} GB/s")
        terminalreporter.line("\n".join(markdown([HEAD, *(cells for cells, _ in lines)])))
