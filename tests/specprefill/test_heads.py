"""Calibration files: whose they are, what they choose, and what is refused."""

import json
import re

import numpy as np
import pytest

from spvk.errors import SpvkError
from spvk.specprefill.heads import VERSION, calibration_path, heads_for
from spvk.specprefill.rates import fingerprint

SHAPE = (3, 4)


@pytest.fixture
def draft(tmp_path):
    path = tmp_path / "draft.gguf"
    path.write_bytes(b"GGUF and so on")
    return str(path)


def write(path, draft, **fields):
    content = {"version": VERSION, "draft_sha256": fingerprint(draft), "chosen": [[0, 3], [2, 1]]}
    path.write_text(json.dumps(content | fields))
    return str(path)


def test_the_chosen_heads_are_the_mask(tmp_path, draft):
    mask = heads_for(write(tmp_path / "a.json", draft), tmp_path, draft, SHAPE)
    assert np.argwhere(mask).tolist() == [[0, 3], [2, 1]] and mask.shape == SHAPE and mask.dtype == bool


def test_auto_reads_the_cache_and_all_reads_nothing(tmp_path, draft):
    assert heads_for("all", tmp_path, draft, SHAPE) is None
    assert heads_for("auto", tmp_path, draft, SHAPE) is None
    write(calibration_path(tmp_path, draft), draft)
    assert heads_for("auto", tmp_path, draft, SHAPE).sum() == 2
    other = tmp_path / "other.gguf"
    other.write_bytes(b"another")
    assert heads_for("auto", tmp_path, str(other), SHAPE) is None
    assert heads_for("all", tmp_path, draft, SHAPE) is None


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"draft_sha256": "ab" * 32}, "draft_sha256: found 'abababababababab'..., expected '"),
        ({"draft_sha256": "\x1b[31m"}, "draft_sha256: found '\\x1b[31m'..."),
        ({"version": 9}, "found something else, expected a file of spvk calibrate"),
        ({"chosen": []}, "chosen: found no list of heads"),
        ({"chosen": {"0": 3}}, "chosen: found no list of heads"),
        ({"chosen": [[0, 3], [3, 0]]}, "chosen: entry 1: found [3, 0], expected [layer, head] below [3, 4]"),
        ({"chosen": [[0, -1]]}, "chosen: entry 0: found [0, -1]"),
        ({"chosen": [[0, True]]}, "chosen: entry 0: found [0, true]"),
        ({"chosen": [[0]]}, "chosen: entry 0: found [0]"),
        ({"chosen": ["03"]}, 'chosen: entry 0: found "03"'),
    ],
)
def test_what_is_wrong_with_a_file_is_named(tmp_path, draft, fields, message):
    path = write(tmp_path / "a.json", draft, **fields)
    with pytest.raises(SpvkError, match=re.escape(f"--heads {path}: {message}")):
        heads_for(path, tmp_path, draft, SHAPE)


@pytest.mark.parametrize(
    "data, message",
    [
        (None, "No such file or directory"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "found something else"),
    ],
)
def test_files_that_are_no_calibration(tmp_path, draft, data, message):
    path = tmp_path / "x.json"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(
        SpvkError, match=re.escape(f"--heads {path}: {message}, expected a file of spvk calibrate")
    ):
        heads_for(str(path), tmp_path, draft, SHAPE)
