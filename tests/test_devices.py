"""Device choice from facts alone, and the one device that is here."""

import dataclasses
import threading

import numpy as np
import pytest

from spvk.errors import DeviceError
from spvk.kernels.profile import Profile, profile_for
from spvk.recording import Buffer, Dispatch
from spvk.vulkan import Device, DeviceInfo, Memory, choose
from spvk.vulkan.layouts import Layouts

CPU = DeviceInfo(
    0,
    "llvmpipe",
    "cpu",
    "llvmpipe",
    "1.3.0",
    b"a",
    "k",
    32 << 30,
    (8, 8, 8),
    True,
    False,
    None,
    1 << 31,
    1 << 27,
    32768,
    (),
)
IGPU = dataclasses.replace(CPU, index=1, name="AMD Radeon 780M", type="integrated", memory=16 << 30)
DGPU = dataclasses.replace(CPU, index=2, name="AMD Radeon RX 7600", type="discrete", memory=8 << 30)
BIG = dataclasses.replace(DGPU, index=3, name="AMD Radeon RX 7900", memory=24 << 30)
OLD = dataclasses.replace(DGPU, index=4, name="Old", memory=48 << 30, missing=("shaderInt64",))


@pytest.mark.parametrize(
    "devices,best,reason",
    [
        ([CPU], CPU, "a software driver: no GPU answers"),
        ([CPU, IGPU], IGPU, "integrated GPU with the most memory"),
        ([CPU, IGPU, DGPU], DGPU, "discrete GPU with the most memory"),
        ([DGPU, BIG, IGPU], BIG, "discrete GPU with the most memory"),
        ([OLD, IGPU], IGPU, "integrated GPU"),
    ],
)
def test_choice(devices, best, reason):
    assert choose(devices) == (best, reason)


def test_named_by_index_and_by_part_of_the_name():
    assert choose([CPU, IGPU, DGPU], "1")[0] is IGPU
    assert choose([CPU, IGPU, DGPU], "rx 7600")[0] is DGPU


@pytest.mark.parametrize(
    "devices,wanted,message",
    [
        ([], None, "no Vulkan device: found none"),
        ([OLD], None, "no usable Vulkan device: Old lacks shaderInt64"),
        (
            [CPU, IGPU],
            "geforce",
            "--device geforce: no such device, expected one of 0: llvmpipe, 1: AMD Radeon 780M",
        ),
        ([CPU], "7", "--device 7: no such device"),
        ([OLD], "old", "--device old: Old lacks shaderInt64"),
    ],
)
def test_refusals(devices, wanted, message):
    with pytest.raises(DeviceError, match=message):
        choose(devices, wanted)


@pytest.mark.parametrize("changes,profile", [
    ({}, Profile("cpu", 8, 8, "fast")),
    (dict(subgroup=(32, 64, 64)), Profile("scalar", 64, 256, "fast")),
    (dict(subgroup=(32, 64, 64), integer_dot=True), Profile("dot", 64, 256, "fast")),
    (dict(subgroup=(32, 64, 64), integer_dot=True, matrix=(16, 16, 16)),
     Profile("coopmat", 64, 256, "fast", (16, 16, 16), 32, 32768)),
    (dict(subgroup=(8, 32, 32), integer_dot=True, matrix=(8, 16, 16)), Profile("dot", 32, 256, "fast")),
])
def test_device_classes(changes, profile):
    assert profile_for(dataclasses.replace(IGPU, **changes), "fast") == profile


def test_auto_precision_is_fast_where_little_is_lost():
    gpu = dataclasses.replace(IGPU, subgroup=(32, 64, 64))
    found = [profile_for(i, "auto").precision for i in (
        IGPU, gpu, dataclasses.replace(gpu, integer_dot=True), dataclasses.replace(gpu, matrix=(16, 16, 16)))]
    assert found == ["fast", "exact", "exact", "fast"]


def test_pipeline_cache_is_kept_on_disk_by_device_and_driver(tmp_path, monkeypatch):
    monkeypatch.setenv("SPVK_CACHE_DIR", str(tmp_path / "cache"))
    with Device() as d:
        d.pipeline("rms_norm", {"LOCAL": 8})
        name = f"pipelines-{d.info.cache_key}.bin"
    saved = (tmp_path / "cache" / name).read_bytes()
    assert saved[:4] in (b"\x20\0\0\0",)  # the header's length, as Vulkan defines it
    with Device() as d:
        d.pipeline("rms_norm", {"LOCAL": 8})
    (tmp_path / "cache" / name).write_bytes(b"rubbish")
    with Device() as d:  # a spoilt cache is no cache
        d.pipeline("rms_norm", {"LOCAL": 8})


def test_memory_is_bounded_by_the_device_limit():
    with Device(max_allocation=1 << 20) as d:
        memory = Memory(d)
        with pytest.raises(
            DeviceError, match="allocating .* bytes: the device allows at most 1048576 at once"
        ):
            memory.allocate(Buffer("big", 2 << 20))
        with pytest.raises(DeviceError, match="weights: .* MiB of device memory"):
            d.require_fit(1 << 60, "weights")
        memory.allocate(Buffer("small", 100))
        assert d.allocated == 1 << 20  # a block of the largest size there is
        with pytest.raises(DeviceError, match="MiB, of which 1 are in use"):
            d.require_fit(d.info.memory, "weights")
        memory.free()
        assert d.allocated == 0


def test_upload_and_download_through_staging(device):
    """The path of a GPU whose memory the host cannot see, with blocks that pretend to be unmapped."""
    memory, data = Memory(device), np.arange(5 << 20, dtype=np.uint32)
    buffer = Buffer("data", data.nbytes + 16)
    memory.allocate(buffer)
    block, _ = memory.places[buffer]
    mapped, block.mapped = block.mapped, None
    memory.upload(buffer, data)
    assert np.array_equal(memory.download(buffer, np.uint32)[: data.size], data)
    part = buffer.range(400, 4000)
    assert np.array_equal(memory.download(part, np.uint32), data[100:1100])
    block.mapped = mapped
    memory.free()


def test_pipelines_made_side_by_side_share_their_layouts(monkeypatch):
    """Each layout is made before the threads start: two that make one at once would leak one."""
    made, original = [], Layouts.pipeline

    def spy(self, push_bytes, views):
        if (push_bytes, views) not in self.pipelines:
            made.append(threading.current_thread() is threading.main_thread())
        return original(self, push_bytes, views)

    monkeypatch.setattr(Layouts, "pipeline", spy)
    with Device() as d:
        d.compile([Dispatch(m, (1, 1, 1), {}, {"LOCAL": 8}) for m in ("rms_norm", "swiglu", "attention.texels")])
        assert len(d.pipelines) == 3
    assert len(made) == 3 and all(made)
