"""bench/isa.py: the constants that it compiles with, its table, its errors. No AMD driver is needed."""

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from spvk.recording import Dispatch
from spvk.shaders import WEIGHT_TYPES

SOURCE = Path(__file__).parent.parent / "bench" / "isa.py"
spec = importlib.util.spec_from_file_location("isa", SOURCE)
isa = importlib.util.module_from_spec(spec)
spec.loader.exec_module(isa)


INFO = SimpleNamespace(subgroup=(32, 32, 32), integer_dot=True, matrix=(16, 16, 16), shared_memory=65536)


def row(module, constants=None, **numbers):
    return {
        "module": module,
        "device": "phoenix",
        **dict.fromkeys(isa.STATISTICS, 0),
        "seconds": 0.1,
        "class": "scalar",
        "constants": constants or {},
    } | numbers


def test_constants_are_those_of_the_launchers():
    names = [f"matvec.{t.lower()}.rows" for t in WEIGHT_TYPES] + ["rms_norm", "matvec.q4_k.lanes"]
    found, _ = isa.constants(names, INFO)
    by = {(module, profile): constants for module, profile, constants in found}
    assert by["rms_norm", "scalar"]["LOCAL"] == 256 and by["matvec.q4_k.lanes", "cpu"]["LOCAL"] == 8
    assert {m for m, profile in by if profile == "scalar"} == set(names) - {"matvec.q4_k.lanes"}
    assert by["matvec.q4_k.rows", "scalar"]["LANES"] == 32
    wide = SimpleNamespace(**vars(INFO) | {"subgroup": (32, 64, 64)})
    assert isa.constants(names[:1], wide)[0][0][2]["LANES"] == 64


def test_every_launcher_can_be_called_without_a_device():
    for profile in isa.classes(INFO):
        dispatches, complaints = isa.launches(profile)
        assert complaints == [] and all(isinstance(d, Dispatch) for d in dispatches)


def test_one_line_a_module_the_one_that_fares_worst():
    rows = [
        row("a", {"N": 1}, vgprs=200),
        row("a", {"N": 2}, vgprs=100, scratch=4),
        row("a", {"N": 3}, vgprs=150, scratch=4),
        row("b", {"N": 4}),
        row("c", {"N": 5}, scratch=9),
        row("c", {"N": 6}, **dict.fromkeys(isa.STATISTICS), error="died"),
    ]
    assert [(r["module"], r["constants"]["N"]) for r in isa.worst(rows)] == [("a", 3), ("b", 4), ("c", 6)]


def test_the_table_marks_trouble():
    lines = isa.markdown(
        [
            row("a", {"LOCAL": 64, "ROWS": 4}, vgprs=24, waves=32),
            row("b", spilled_sgprs=3),
            row("c", **dict.fromkeys(isa.STATISTICS), error="died"),
        ]
    ).splitlines()
    assert lines[0] == (
        "| module | device | vgprs | sgprs | spilled_vgprs | spilled_sgprs | scratch | lds | waves | "
        "code_size | inverse_throughput | seconds | class | constants |"
    )
    assert (
        lines[2] == "| a | phoenix | 24 | 0 | 0 | 0 | 0 | 0 | 32 | 0 | 0 | 0.1 | scalar | LOCAL=64 ROWS=4 |"
    )
    assert lines[3].startswith("| ! b | phoenix |") and lines[4].startswith("| ! c | phoenix | - | - |")


class Compiler:
    """Stands for the child process: compiles module 0, dies on module 1, compiles module 2."""

    def __init__(self):
        combinations = [[m, "scalar", {"N": i}] for i, m in enumerate("abc")]
        self.head = {"driver": "RADV", "complaints": ["x: y"], "combinations": combinations}
        self.skips = []

    def __call__(self, family, icd, options, skip):
        self.skips.append(skip)
        if options and options.profile == "cpu":
            return 0, [{**self.head, "combinations": []}], ""
        done = {**dict.fromkeys(isa.STATISTICS, skip), "seconds": 0.5}
        return (0 if skip else -isa.signal.SIGALRM), [self.head, done], ""


def test_a_module_that_the_compiler_dies_on_is_named_and_the_rest_goes_on(monkeypatch, capsys):
    compiler = Compiler()
    monkeypatch.setattr(isa, "run_child", compiler)
    rows, complaints = isa.measured("phoenix", "icd.json", None)
    assert compiler.skips == [0, 2] and complaints == ["x: y"]
    assert [(r["module"], r["vgprs"], r.get("error")) for r in rows] == [
        ("a", 0, None),
        ("b", None, "more than 60 s"),
        ("c", 2, None),
    ]
    assert "phoenix: b: the compiler stopped (more than 60 s)" in capsys.readouterr().err


def test_json_alone_on_standard_output_and_strict_status(monkeypatch, capsys, tmp_path):
    (tmp_path / "radeon.json").write_text("{}")
    monkeypatch.setattr(isa, "run_child", Compiler())
    common = ["--icd", str(tmp_path / "radeon.json"), "--device", "phoenix", "--strict"]
    assert isa.main([*common, "--json", "-"]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert {"module", "device", *isa.STATISTICS} <= set(rows[0]) and len(rows) == 3
    assert isa.main([*common, "--class", "cpu"]) == 0 and "| a |" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "args,words",
    [
        (["--icd", "absent.json"], "RADV's driver is not installed: absent.json is not a file"),
        ([], "RADV's driver is not installed: no radeon_icd*.json in"),
    ],
)
def test_no_driver_is_one_line_and_status_2(args, words, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(isa, "ICD_FOLDERS", (str(tmp_path),))
    with pytest.raises(SystemExit) as stop:
        isa.main(args)
    out, err = capsys.readouterr()
    assert stop.value.code == 2 and out == "" and err.startswith(f"isa: {words}") and err.count("\n") == 1


def test_another_driver_is_one_line_and_status_2(capsys, tmp_path):
    """A manifest without a library behind it: the real child process, no device."""
    (tmp_path / "radeon_icd.json").write_text(
        json.dumps(
            {
                "file_format_version": "1.0.0",
                "ICD": {"library_path": str(tmp_path / "none.so"), "api_version": "1.3.0"},
            }
        )
    )
    with pytest.raises(SystemExit) as stop:
        isa.main(["--icd", str(tmp_path / "radeon_icd.json"), "--device", "phoenix", "--module", "rms_norm"])
    out, err = capsys.readouterr()
    assert stop.value.code == 2 and out == "" and err.startswith("isa: phoenix: ") and err.count("\n") == 1
