"""How many dispatches a layer takes: rounding adds none, but one for attention's output of several rows."""

from collections import Counter
from dataclasses import replace

import pytest

from models import MIXED, TARGET
from spvk.kernels.profile import Profile
from spvk.model import Model
from spvk.models.builder import Capture
from spvk.session import name_buffers, record

FAST = {name: Profile(name, 8, 8 if name == "cpu" else 64, "fast") for name in ("cpu", "dot", "coopmat")}


def kernels(device, monkeypatch, path, profile, rows):
    """(calls of each kernel in a recording with the output head, layers that attend)."""
    monkeypatch.setattr("spvk.model.profile_for", lambda info, *_: profile)
    with Model(device, path) as m:
        buffers = name_buffers(m, 256, 64, Capture())
        recording = record(m, buffers, 256, rows, Capture(), last=True)
        return Counter(d.module.partition(".")[0] for d in recording), len(m.config.attention_layers)


@pytest.mark.parametrize("path", [TARGET, MIXED], ids=lambda p: p.stem)
@pytest.mark.parametrize("name,rows", [("cpu", 1), ("cpu", 16), ("cpu", 64), ("dot", 64), ("coopmat", 64)])
def test_kernels_round_the_rows_that_they_make(device, monkeypatch, path, name, rows):
    fast, attending = kernels(device, monkeypatch, path, FAST[name], rows)
    exact, _ = kernels(device, monkeypatch, path, replace(FAST[name], precision="exact"), rows)
    assert fast - exact == Counter({"quantize_rows": attending} if rows > 1 else {}) and not exact - fast
    assert exact["quantize_rows"] == 0 and attending > 0


@pytest.mark.parametrize("name", ["dot", "coopmat"])
def test_single_rows_stay_exact_on_gpus(device, monkeypatch, name):
    fast, _ = kernels(device, monkeypatch, TARGET, FAST[name], 1)
    exact, _ = kernels(device, monkeypatch, TARGET, replace(FAST[name], precision="exact"), 1)
    assert fast == exact
