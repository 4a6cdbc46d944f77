"""bench/outputs.py and libllama.py: how outputs are compared, and how a library's structs are read.

No llama.cpp is needed: spvk itself, read in another way, stands in for it.
"""

import ctypes

import _cffi_backend  # a shared library that everyone has who runs this
import numpy as np
import pytest

import libllama
import outputs
from models import TINY, exact
from spvk.errors import SpvkError
from spvk.model import Model
from spvk.models.builder import Capture
from spvk.session import Session


@pytest.fixture(scope="module")
def model(device):
    with Model(device, TINY) as m:
        yield m


class StandIn:
    """LlamaCpp's methods by a session that reads token by token; `gaps`: whether it takes gapped positions."""

    def __init__(self, model, gaps=True):
        self.model, self.gaps, self.session = model, gaps, None

    def reset(self):
        self.close()
        self.session, self.past = Session(self.model, 256, 1, Capture(rows=True)), 0

    def read(self, tokens, positions=None, last=1):
        positions = range(self.past, self.past + len(tokens)) if positions is None else positions
        if not self.gaps and positions[-1] - positions[0] != len(tokens) - 1:
            raise libllama.Refused("positions are not continuous")
        out = []
        for token, position in zip(tokens, positions):
            self.session.decode(token, position)
            out.append(self.session.logits())
        self.past = positions[-1] + 1
        return np.stack(out[-last:])

    def attention_rows(self, keys):
        return self.session.attention_rows()[:, :, :keys]

    def close(self):
        if self.session:
            self.session.close()


@pytest.fixture
def stand_in(model):
    made = []
    yield lambda gaps=True: made.append(StandIn(model, gaps)) or made[-1]
    for each in made:
        each.close()


def test_a_program_agrees_with_itself(model, stand_in):
    tokens = exact(TINY)["n257/tokens"][:130]
    found = outputs.compare_prompt(model, stand_in(), tokens, 5, 4)
    assert found["prompt_tokens"] == 130 and found["sparse_tokens"] == 96
    for part, positions in ((found, 5), (found["sparse"], 1)):
        assert part["positions"] == positions and part["top1"] == 1 and part["greedy_same"] == 4
        assert 0 <= part["kl_mean"] <= part["kl_max"] < 1e-9 and part["rows_difference"] < 1e-5


def test_a_refused_sparse_prefill_is_said(model, stand_in):
    found = outputs.compare_prompt(model, stand_in(gaps=False), exact(TINY)["n257/tokens"][:100], 1, 1)
    assert found["sparse"] is None and found["greedy_same"] == 1
    assert outputs.prompt_table(found)[-1] == (
        "sparse prefill of 68 tokens at their own positions",
        "refused by llama.cpp: positions are not continuous",
    )


def test_fidelity_is_measured_from_the_exact_outputs(model, stand_in):
    cases = outputs.read_cases(TINY.with_suffix(".npz"))
    assert set(cases) == {"n1", "n7", "n64", "n65", "n257", "n1000", "sparse"}
    few = {name: cases[name] for name in ("n64", "sparse")}
    few["n64"]["logits"] = few["n64"]["logits"] * np.float32(0.5)  # twice as large then: an NMSE of 1
    dense, sparse = outputs.fidelity(model, stand_in(gaps=False), few)
    assert abs(dense["spvk_nmse"] - 1) < 1e-5 and abs(dense["llamacpp_nmse"] - 1) < 1e-5
    assert dense["spvk_rows"] < 1e-5 and 0 < sparse["spvk_nmse"] < 1e-8 and sparse["llamacpp_nmse"] is None
    assert outputs.fidelity_table([dense, sparse])[2][0::3] == ("sparse", "refused")


def test_another_models_outputs_are_named(model, stand_in):
    case = {**outputs.read_cases(TINY.with_suffix(".npz"))["n1"], "logits": np.zeros(3, np.float32)}
    with pytest.raises(SpvkError, match=r"--npz: one/logits: found \[3\], expected \[512\] of this model"):
        outputs.fidelity(model, stand_in(), {"one": case})


def test_files_that_are_no_exact_outputs_are_named(tmp_path):
    path = tmp_path / "x.npz"
    path.write_text("not an archive")
    with pytest.raises(SpvkError, match="x.npz: found no archive, expected an .npz of CASE/tokens"):
        outputs.read_cases(path)
    np.savez(path, **{"a/tokens": np.arange(3)})
    with pytest.raises(
        SpvkError, match="x.npz: a/positions is not a file in the archive, expected every case"
    ):
        outputs.read_cases(path)


def test_divergence_is_that_of_the_distributions():
    p, q = np.array([[0.5, 0.25, 0.25], [1 / 3] * 3]), np.array([[0.25, 0.5, 0.25], [1 / 3] * 3])
    found = outputs.divergence(np.log(p) + 5, np.log(q) - 700)  # a constant changes nothing
    assert np.allclose(found, [0.25 * np.log(2), 0], atol=1e-12)


def test_greedy_tokens_count_up_to_the_first_that_differs():
    assert outputs.common_prefix([1, 2, 3], [1, 2, 3]) == 3
    assert outputs.common_prefix([1, 2, 3], [1, 5, 3]) == 1


def test_gaps_leave_whole_chunks_out_and_keep_the_end():
    assert outputs.gapped(30).tolist() == list(range(30))
    assert outputs.gapped(100).tolist() == [*range(32), *range(64, 100)]


# -- the structs -------------------------------------------------------------------------------------------

ONES, FLOATS = [-1] * 4, [0, 0, *[-1082130432] * 4, 0]  # -1082130432 is -1.0
TAIL = [-1082130432, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0]  # a number, two null pointers, two types
NOW = [512, 2048, 512, 1, 0, 0, 1, 4, 4, 0, *ONES, *FLOATS, *TAIL]  # b11434
BEFORE = [512, 2048, 512, 1, 4, 4, *ONES, *FLOATS[1:], *TAIL]  # without some of the counts


class Defaults(libllama.Library):
    """A library that knows nothing but its default parameters."""

    def __init__(self, words):
        params = libllama.Params()
        params.words[: len(words)] = words
        self.path, self.context_default_params, self.model_default_params = (
            "lib.so",
            lambda: params,
            lambda: params,
        )


@pytest.mark.parametrize("words", [NOW, BEFORE], ids=["now", "before"])
def test_fields_are_found_by_the_defaults_around_them(words):
    callback = libllama.EVAL(lambda tensor, ask, data: False)
    made = list(Defaults(words).context_params(768, callback).words)
    flash = words.index(-1) + 3
    where = len(words) - len(TAIL) + 1
    assert made[:4] == [768, 768, 512, 1] and made[flash - 1 : flash + 1] == [-1, 0]
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert np.array(made[where : where + 2], np.int32).view(np.int64)[0] == address
    changed = {0, 1, flash, where, where + 1}
    assert all(made[i] == w for i, w in enumerate(words) if i not in changed)


@pytest.mark.parametrize("words", [NOW[1:], NOW[:14], [*NOW[:10], *NOW[12:]]], ids=["start", "end", "types"])
def test_unknown_structs_are_refused(words):
    with pytest.raises(
        SpvkError, match="lib.so: its context parameters .*a version this program does not know"
    ):
        Defaults(words).context_params(256, libllama.EVAL(lambda tensor, ask, data: False))
    with pytest.raises(SpvkError, match="lib.so: its model parameters do not begin with two null pointers"):
        Defaults(words).model_params()


@pytest.mark.parametrize(
    "path, words", [("/no/such.so", "cannot open"), (_cffi_backend.__file__, "undefined symbol: llama_")]
)
def test_what_is_no_libllama_is_named(path, words):
    with pytest.raises(SpvkError, match=f"--llama-cpp: {path}: .*{words}.*, expected a libllama of 2026"):
        libllama.Library(path)
