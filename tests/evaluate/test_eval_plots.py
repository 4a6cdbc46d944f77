"""Plots: what each panel shows, and the files."""

import sys
from pathlib import Path

import pytest

from spvk.errors import SpvkError
from spvk.evaluate import plots

ROW = {"cell": {"task": "keys", "len": 500}, "fact": None, "prompts": 4, "stated": None, "stated_95": None}


def row(policy, keep, exact, low, high, ttft=10.0, **more):
    return {
        **ROW,
        "policy": policy,
        "keep": keep,
        "kept_fraction": 1.0 if keep is None else 0.2 if keep == "preset" else keep + 0.05,
        "exact": exact,
        "exact_95": [low, high],
        "ttft_ms": ttft,
        **more,
    }


ROWS = [
    row("dense", None, 1.0, 0.5, 1.0, 40.0),
    row("v3", 0.3, 0.75, 0.3, 0.95, 30.0),
    row("v3", 0.1, 0.5, 0.15, 0.85, 20.0),
    row("v3", "preset", 0.5, 0.15, 0.85, 25.0),
    row("v3", 0.1, 0.0, 0.0, 0.4, fact="cut"),
    row("v3", 0.1, 0.25, 0.1, 0.6, cell=None),
]


def test_a_panel_has_a_line_a_policy_and_its_intervals():
    figure = plots.figure(ROWS, plots.accuracy_panel, True)
    first, second = (ax for ax in figure.axes if ax.axison)
    assert (first.get_title(), second.get_title()) == ("keys, len 500", "all")
    line, _, (bars,) = first.containers[0].lines
    assert line.get_ydata().tolist() == [50, 50, 75]  # the cut facts are in the table alone
    assert line.get_xdata() == pytest.approx([0.15, 0.2, 0.35])
    assert [segment[:, 1].tolist() for segment in bars.get_segments()] == [[15, 85], [15, 85], [30, 95]]
    dense = first.lines[0]
    assert dense.get_label() == "dense" and set(dense.get_ydata()) == {100}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["dense", "v3"]


def test_text_is_judged_by_what_it_states():
    stated = [row("v3", 0.1, 0.0, 0.0, 0.5, stated=0.75, stated_95=[0.3, 0.95])]
    (ax,) = plots.figure(stated, plots.accuracy_panel, True).axes
    assert ax.get_ylabel() == "stated, % (95 %)"
    assert ax.containers[0].lines[0].get_ydata().tolist() == [75]


def test_times_have_scales_of_their_own():
    figure = plots.figure(ROWS, plots.time_panel, False)
    first, second = (ax for ax in figure.axes if ax.axison)
    assert [list(line.get_ydata()) for line in first.lines] == [[40, 40], [20, 25, 30]]
    assert first.get_ylim()[0] == 0 and 40 < first.get_ylim()[1] < 50 and 10 < second.get_ylim()[1] < 12


def test_the_files_are_png_and_the_same_again(tmp_path):
    paths = plots.write_plots(str(tmp_path), ROWS)
    assert paths == [str(tmp_path / "accuracy.png"), str(tmp_path / "ttft.png")]
    data = [Path(path).read_bytes() for path in paths]
    assert all(d.startswith(b"\x89PNG\r\n\x1a\n") for d in data) and data[0] != data[1]
    assert [Path(path).read_bytes() for path in plots.write_plots(str(tmp_path), ROWS)] == data


def test_without_matplotlib_or_a_folder_one_line_says_so(tmp_path, monkeypatch):
    plots.require_folder(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(SpvkError, match="--plots .*file: .*, expected a folder"):
        plots.require_folder(str(tmp_path / "file"))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SpvkError, match=r"matplotlib is not installed, expected the extra spvk\[eval\]"):
        plots.require_folder(str(tmp_path))
