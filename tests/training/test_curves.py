"""training.curves: columns, means, where documents grow longer, a picture, errors."""

import math

import pytest

from training import curves

FIELDS = (*curves.COLUMNS, *curves.TASKS)


def write(path, *rows):
    """A training's file; a row's missing fields are empty."""
    lines = [",".join(str(row.get(name, "")) for name in FIELDS) for row in rows]
    path.write_text("\n".join([",".join(FIELDS), *lines]) + "\n")
    return path


@pytest.fixture
def file(tmp_path):
    rows = [
        {"step": 20 * i, "length": 96 * i, "look_weight": 1 - i / 2, "answer_loss": 2 / i, "fact": i / 4}
        for i in (1, 2, 3)
    ]
    return write(tmp_path / "run.csv", *rows)


def test_columns_with_nan_where_a_task_was_not_asked(file):
    columns = curves.read(file)
    assert columns["step"] == [20, 40, 60] and columns["fact"] == [0.25, 0.5, 0.75]
    assert all(map(math.isnan, columns["chain"]))
    assert curves.longer(columns) == [(40, 192), (60, 288)]


def test_means_leave_nan_out():
    assert curves.smoothed([1.0, math.nan, 4.0, 7.0], 2) == [1.0, 1.0, 4.0, 5.5]
    assert math.isnan(curves.smoothed([math.nan])[0])


def test_a_picture_of_every_task(file, tmp_path):
    axes = curves.figure(curves.read(file)).axes
    assert [line.get_label() for line in axes[0].get_lines()][-len(curves.TASKS) :] == list(curves.TASKS)
    out = tmp_path / "curves.png"
    curves.main([str(file), str(out)])
    assert out.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    "text, message", [(None, "No such file"), ("a,b\n1,2\n", "found no training's columns")]
)
def test_errors_are_one_line(tmp_path, capsys, text, message):
    path = tmp_path / "x.csv"
    if text:
        path.write_text(text)
    with pytest.raises(SystemExit) as stop:
        curves.main([str(path), str(tmp_path / "x.png")])
    err = capsys.readouterr().err
    assert (
        stop.value.code == 2 and err.count("\n") == 1 and message in err and not (tmp_path / "x.png").exists()
    )
