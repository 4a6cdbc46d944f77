"""--cache-type f16: keys and values in half the memory, at an error far below that of rounded products."""

import json

import numpy as np
import pytest

from conftest import assert_close
from models import DRAFT, TARGET, TINY, cases
from spvk import engine
from spvk.errors import SpvkError
from spvk.model import Model
from spvk.models.builder import Capture
from spvk.session import NAN_TOKEN, Session, session_bytes
from test_fidelity import case_of, check_case


@pytest.mark.parametrize("path", [TINY, DRAFT, TARGET], ids=lambda p: p.stem)
def test_outputs_stay_within_the_budget_of_exact_products(device, path):
    with Model(device, path, cache="f16") as model:
        for case in cases(path):
            check_case(model, case_of(path, case), 2e-8, rows_budget=1e-3)


@pytest.mark.parametrize("path", [TINY, TARGET], ids=lambda p: p.stem)
@pytest.mark.parametrize("precision", ["exact", "fast"])
def test_keeping_everything_is_bit_identical_to_dense(device, path, precision):
    tokens = case_of(TINY, "n257")["tokens"]
    with Model(device, path, precision, "f16") as model:
        dense = engine.dump(model, tokens, lookahead=2)
        kept = engine.dump(model, tokens, np.arange(len(tokens)), lookahead=2)
        assert all(np.array_equal(dense[name], kept[name]) for name in dense)
        cut = engine.dump(model, tokens, batch=7)["logits"]
        assert_close(cut, dense["logits"][:1], 1e-7, "batch 7")


def test_only_keys_and_values_take_half_the_memory(device):
    sizes = []
    for cache in ("f32", "f16"):
        with Model(device, TARGET, cache=cache) as model:
            sizes.append(session_bytes(model, 1000, 64, Capture()))
    for name, full in sizes[0].items():
        assert sizes[1][name] == (full // 2 if name.startswith(("k_cache", "v_cache")) else full), name


def test_nan_logits_point_to_float16(device):
    with Model(device, TINY, cache="f16") as model, Session(model, 8, 4) as session:
        session.inputs["next_token"][0] = NAN_TOKEN
        with pytest.raises(SpvkError, match="the logits hold NaN; beyond float16. try --cache-type f32"):
            session.next_token()


def test_the_commands_say_which_cache_they_used(spvk, tmp_path):
    tokens = tmp_path / "tokens.npy"
    np.save(tokens, case_of(DRAFT, "n257")["tokens"])
    run = (
        "prefill",
        "-m",
        TARGET,
        "-md",
        DRAFT,
        "--tokens",
        tokens,
        "--mode",
        "always",
        "-n",
        1,
        "--json",
        "-",
    )
    reports = [json.loads(spvk(*run, "-ct", kind)[1]) for kind in ("f32", "f16")]
    assert [r["cache_type"] for r in reports] == ["f32", "f16"]
    assert reports[0]["tokens"] == reports[1]["tokens"]
    status, out, _ = spvk(
        "bench", "-m", DRAFT, "-p", 16, "-n", 0, "-r", 1, "-b", 16, "--cache-type", "f16", "-o", "json"
    )
    assert status == 0 and [json.loads(out)[0][key] for key in ("type_k", "type_v")] == ["f16", "f16"]
    status, out, err = spvk(*run, "--cache-type", "q8_0")
    assert status == 2 and "q8_0" in err and "'f32', 'f16'" in err and err.count("\n") == 1
