"""What RADV's compiler makes of every module, for AMD GPUs that need not be there.

    python bench/isa.py [--device phoenix,navi31,navi21] [--module 'matmul.q4_k.*']
                        [--class scalar|dot|coopmat|cpu|none] [--wave 32|64] [--all] [--json FILE|-] [--strict] [--icd FILE]

RADV (Mesa 25.0 or newer) compiles for the family in RADV_FORCE_FAMILY on a null device; one process a family.
phoenix is the Radeon 780M, navi31 the RX 7900 (both RDNA3), navi21 the RX 6800 and 6900 (RDNA2).

A module is compiled with the constants that its launcher chooses for the device: every launcher is called
without a device, with huge buffers, the 4B's sizes (SIZES), several numbers of rows (ROWS), options off and
on. A module that no launcher takes on a GPU gets the constants of class `cpu`, and one without a launcher its
default constants with LOCAL 256; the column `class` says which (scalar, dot, coopmat, cpu, none). Where a
module has several sets of constants the line shows the one that fares worst; --all shows each.

Columns: vector and scalar registers, those spilled, scratch (bytes a wave), lds (bytes a workgroup), waves
(a SIMD, by registers and LDS; in waves of 32 lanes, so that one of 64 counts twice), code size (bytes),
inverse throughput (the compiler's estimate of the cycles that a wave keeps a SIMD busy; it takes a loop to
run 8 times), seconds to compile. `!` marks spills and scratch, and modules that the compiler gave up on, took
more than a minute for or more than 4 GiB; with --strict they give exit status 1. Exit status 2: RADV is not
there, or does not know the family.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import inspect
import itertools
import json
import os
import pkgutil
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

FAMILIES = "phoenix,navi31,navi21"
ICD_FOLDERS = ("/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d",
               "~/.local/share/vulkan/icd.d")
STATISTICS = {"vgprs": "VGPRs", "sgprs": "SGPRs", "spilled_vgprs": "Spilled VGPRs",
              "spilled_sgprs": "Spilled SGPRs", "scratch": "Scratch size",
              "lds": "LDS size", "waves": "Subgroups per SIMD", "code_size": "Code size",
              "inverse_throughput": "Inverse Throughput"}
TROUBLE = ("scratch", "spilled_vgprs", "spilled_sgprs")
# What launchers are called with, by the name of the argument: the 4B's sizes.
SIZES = {"heads": 16, "kv_heads": 4, "dim": 256, "rotary": 64, "context": 8192, "eps": 1e-6, "key_heads": 16,
         "value_heads": 32, "size": 128, "channels": 8192, "n": 9216, "k": 40}
ROWS = (512, 64, 8, 1)
# The same for single kernels.
OTHERS = {"quantize_rows": {"k": 2560}, "gated_norm": {"heads": 32}, "argmax": {"n": 248320},
          "top_k": {"n": 248320}, "gap_decay": {"estimate": "mean"}}
CLASSES = ("scalar", "dot", "coopmat", "cpu", "none")
LIMIT_SECONDS, LIMIT_BYTES = 60, 4 * 2**30  # for one module; a runaway compiler takes the machine down


# -- the constants that launchers choose -------------------------------------------------------------------

def launches(profile) -> tuple[list, list[str]]:
    """(dispatches of every launcher for this profile, complaints of those that could not be called)."""
    import spvk.kernels as kernels
    from spvk.kernels.quantize_rows import packed_bytes

    out, complaints = [], []
    for found in pkgutil.iter_modules(kernels.__path__):
        if found.name == "quantize_rows" and not packed_bytes(profile, 1, 32):
            continue
        try:
            launcher = getattr(importlib.import_module(f"spvk.kernels.{found.name}"), found.name, None)
            if inspect.isfunction(launcher) and "profile" in inspect.signature(launcher).parameters:
                out += calls(launcher, profile)
        except Exception as error:  # a launcher in the making must not hide the others
            complaints.append(f"{found.name}: {error}")
    return out, complaints


def calls(launcher, profile) -> list:
    """What a launcher returns: each of ROWS, options off and on, each weight type if it reads weights."""
    from spvk.shaders import WEIGHT_TYPES

    parameters = inspect.signature(launcher).parameters
    weighted = any(p.annotation == "Matrix" for p in parameters.values())
    out = []
    for rows, options, kind in itertools.product(ROWS, (False, True), WEIGHT_TYPES if weighted else ("F32",)):
        sizes = {**SIZES, **OTHERS.get(launcher.__name__, {}), "rows": rows}
        args = {name: argument(p, profile, sizes, options, kind) for name, p in parameters.items()}
        positional = [args.pop(n) for n, p in parameters.items() if p.kind is not p.KEYWORD_ONLY]
        made = launcher(*positional, **args)
        out += made if isinstance(made, list) else [made]
    return out


def argument(p: inspect.Parameter, profile, sizes: dict, options: bool, kind: str):
    """A value for one parameter, by its name and annotation; `options` fills in what may be left out."""
    from spvk.gguf.types import BY_NAME
    from spvk.recording import Buffer, Matrix

    big = Buffer(p.name, 2**40)
    if p.name == "profile":
        return profile
    if p.annotation == "Matrix":
        return Matrix(p.name, kind, 2560, 9216, BY_NAME[kind].row_bytes(2560), ((0, 9216, big),))
    if p.default is not p.empty and not (options and p.annotation in ("bool", "Buffer | None")):
        return p.default
    if p.annotation in ("bool", "Buffer", "Buffer | None"):
        return True if p.annotation == "bool" else big
    if p.name not in sizes:
        raise LookupError(f"no size for its argument {p.name}")
    return sizes[p.name]


def classes(info) -> list:
    """The profiles whose launches are compiled, by their classes: those of the device, then class `cpu`."""
    from spvk.kernels.profile import CPU, Profile, profile_for

    gpu = [Profile("scalar", info.subgroup[1], 256, cache=cache) for cache in ("f32", "f16")]
    gpu += [Profile("dot", info.subgroup[1], 256, "fast")] if info.integer_dot else []
    gpu += [profile_for(info, "fast")] if info.matrix else []
    return [*gpu, CPU, replace(CPU, precision="fast")]


def constants(modules: list[str], info) -> tuple[list[tuple[str, str, dict[str, int]]], list[str]]:
    """([(module, class, constants)], complaints), each combination once; `info` is the device's."""
    from spvk import shaders

    found: dict[tuple, None] = {}
    complaints: list[str] = []
    if not info.matrix:  # the driver would stop at them
        modules = [m for m in modules if not m.endswith(".coop")]
    for profile in classes(info):
        made, more = launches(profile)
        complaints += more
        done = {module for module, name, _ in found if name != profile.name}
        found |= {(d.module, profile.name, tuple(d.spec.items())): None for d in made if d.module not in done}
    out = [(module, name, dict(spec)) for module, name, spec in found if module in modules]
    bare = [m for m in modules if m not in {module for module, _, _ in out}]
    local = {"LOCAL": 256}
    out += [(m, "none", {k: v for k, v in local.items() if k in shaders.manifest()[m].spec}) for m in bare]
    return sorted(out, key=lambda item: modules.index(item[0])), list(dict.fromkeys(complaints))


# -- the child process -------------------------------------------------------------------------------------

def measure(family: str, options: argparse.Namespace, skip: int) -> None:
    """Print a JSON object a line: first the driver and what is to be compiled, then statistics of each.

    Of the combinations of module and constants the first `skip` are left out. The compiler may die in the
    middle, or be stopped: the parent sees it from what is missing.
    """
    from null_device import NullDevice

    from spvk import shaders

    device = NullDevice(family, options.wave)
    modules = [m for m in shaders.manifest() if fnmatch.fnmatch(m, options.module)]
    combinations, complaints = constants(modules, device.info)
    combinations = [c for c in combinations if options.profile in (None, c[1])]
    driver = f"{device.info.name}, {device.info.driver}, subgroups of {device.info.subgroup[1]}"
    print(json.dumps({"driver": driver, "complaints": complaints, "combinations": combinations}), flush=True)
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    for module, _, spec in combinations[skip:]:
        signal.alarm(LIMIT_SECONDS)  # its default action ends the process, wherever the compiler is
        found, seconds = device.compile(shaders.manifest()[module], spec)
        row = {key: found[name] for key, name in STATISTICS.items()} | {"seconds": round(seconds, 3)}
        print(json.dumps(row), flush=True)


# -- the parent --------------------------------------------------------------------------------------------

def find_icd(given: str | None) -> str:
    """The manifest of RADV's driver; exits with status 2 when there is none."""
    found = [given] if given else [str(p) for folder in ICD_FOLDERS
                                   for p in sorted(Path(folder).expanduser().glob("radeon_icd*.json"))]
    if found and Path(found[0]).is_file():
        return os.path.abspath(found[0])
    where = f"{given} is not a file" if given else f"no radeon_icd*.json in {', '.join(ICD_FOLDERS)}"
    fail(f"RADV's driver is not installed: {where}; install Mesa's Vulkan drivers, or name the manifest with "
         "--icd FILE")


def fail(message: str) -> None:
    print(f"isa: {message}", file=sys.stderr)
    sys.exit(2)


def measured(family: str, icd: str, options) -> tuple[list[dict], list[str]]:
    """(rows, complaints) of a family; the child begins again behind a module that it dies on."""
    rows: list[dict] = []
    while True:
        status, lines, error = run_child(family, icd, options, skip=len(rows))
        if not lines:
            fail(f"{family}: {error or f'the driver stopped, status {status}'} ({icd})")
        head = lines.pop(0)
        for done in lines:
            rows.append(describe(head, len(rows), family, done))
        if status == 0:
            print(f"isa: {head['driver']}", file=sys.stderr)
            return rows, head["complaints"]
        why = f"more than {LIMIT_SECONDS} s" if status == -signal.SIGALRM else error or f"status {status}"
        nothing = dict.fromkeys((*STATISTICS, "seconds"))
        rows.append(describe(head, len(rows), family, {**nothing, "error": why}))
        print(f"isa: {family}: {rows[-1]['module']}: the compiler stopped ({why})", file=sys.stderr)


def describe(head: dict, index: int, family: str, found: dict) -> dict:
    module, profile, spec = head["combinations"][index]
    return {"module": module, "device": family, **found, "class": profile, "constants": spec}


def run_child(family: str, icd: str, options, skip: int) -> tuple[int, list[dict], str]:
    """(exit status, objects that were printed, last line of standard error)."""
    command = [sys.executable, __file__, "--child", str(skip), "--device", family, "--module", options.module]
    command += ["--wave", str(options.wave)] if options.wave else []
    command += ["--class", options.profile] if options.profile else []
    environment = {**os.environ, "RADV_FORCE_FAMILY": family, "VK_DRIVER_FILES": icd, "VK_ICD_FILENAMES": icd,
                   "MESA_SHADER_CACHE_DISABLE": "true"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    errors = [line for line in done.stderr.splitlines() if line.strip() and "pci bus" not in line]
    return (done.returncode, [json.loads(line) for line in done.stdout.splitlines()],
            errors[-1].removeprefix("isa: ") if errors else "")


def severity(row: dict) -> list:
    return ["error" in row, *(row[k] or 0 for k in (*TROUBLE, "vgprs", "code_size"))]


def worst(rows: list[dict]) -> list[dict]:
    """One row a module and device: the one with most scratch, then spills, then registers."""
    best: dict[tuple, dict] = {}
    for row in rows:
        key = row["module"], row["device"]
        best[key] = max(best.get(key, row), row, key=severity)
    return list(best.values())


def in_trouble(row: dict) -> bool:
    return "error" in row or any(row[key] for key in TROUBLE)


def markdown(rows: list[dict]) -> str:
    """The table, one line a row; `!` before a module that is in trouble."""
    columns = ["module", "device", *STATISTICS, "seconds", "class", "constants"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "|".join("---" for _ in columns) + "|"]
    for row in rows:
        cells = {**row, "module": ("! " if in_trouble(row) else "") + row["module"],
                 "constants": " ".join(f"{k}={v}" for k, v in row["constants"].items())}
        lines.append("| " + " | ".join("-" if cells[c] is None else str(cells[c]) for c in columns) + " |")
    return "\n".join(lines)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--device", default=FAMILIES, metavar="FAMILY,…", help=f"RADV families [{FAMILIES}]")
    add("--module", default="*", metavar="PATTERN", help="only modules like this, such as 'matmul.q4_k.*'")
    add("--class", dest="profile", choices=CLASSES, help="only modules of this class")
    add("--wave", type=int, choices=(32, 64), help="require this subgroup size [the driver's default]")
    add("--all", action="store_true", help="every set of constants, not only the one that fares worst")
    add("--json", metavar="FILE", help="write a list of objects instead (- is standard output)")
    add("--strict", action="store_true", help="exit status 1 when a module spills or uses scratch")
    add("--icd", metavar="FILE", help="RADV's manifest [searched in the usual places]")
    add("--child", type=int, metavar="SKIP", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    if options.child is not None:
        try:
            measure(options.device, options, options.child)
        except Exception as error:  # one line for the parent
            fail(" ".join(str(error).split()))
        return 0
    icd, rows, complaints = find_icd(options.icd), [], []
    for family in options.device.split(","):
        found, more = measured(family.strip(), icd, options)
        rows += found if options.all else worst(found)
        complaints += more
    for line in dict.fromkeys(complaints):
        print(f"isa: no constants from a launcher: {line}", file=sys.stderr)
    text = json.dumps(rows, indent=1) if options.json else markdown(rows)
    if options.json in (None, "-"):
        print(text)
    else:
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    return 1 if options.strict and any(map(in_trouble, rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
