"""Whole models by the kernels of the GPU classes, on whatever device is here: near the exact outputs.

Budgets are NMSE of logits: that of exact products for class scalar, of rounded activations for the others.
"""

import numpy as np
import pytest

from conftest import assert_close
from models import TARGET, TINY, exact
from spvk import engine
from spvk.kernels.profile import Profile
from spvk.model import Model

BUDGETS = {"scalar": 1e-8, "dot": 2e-3, "coopmat": 1e-5}


@pytest.fixture(params=["scalar", "dot", pytest.param("coopmat", marks=pytest.mark.coopmat)])
def model_of(request, device, monkeypatch):
    """Opens models with the profile of a GPU class."""
    info = device.info
    profile = Profile(request.param, info.subgroup[1], 64, "fast", info.matrix, info.subgroup[1],
                      max(info.shared_memory, 65536))  # as RDNA3; lavapipe has it, whatever it says
    monkeypatch.setattr("spvk.model.profile_for", lambda info, *_: profile)
    opened = []

    def open_model(path):
        opened.append(Model(device, path))
        return opened[-1]

    yield open_model
    for m in opened:
        m.close()


@pytest.mark.parametrize("path", [TINY, TARGET], ids=lambda p: p.stem)
def test_near_the_exact_outputs(model_of, path):
    model, want = model_of(path), exact(path)
    got = engine.dump(model, want["n257/tokens"], batch=128, lookahead=2)
    assert_close(got["logits"][0], want["n257/logits"], BUDGETS[model.profile.name], model.profile.name)
    again = engine.dump(model, want["n257/tokens"], batch=128, lookahead=2)
    assert np.array_equal(again["logits"], got["logits"])
