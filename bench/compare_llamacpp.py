"""spvk beside llama.cpp on the same file: speeds, and outputs.

    python bench/compare_llamacpp.py --llama-bench PATH -m MODEL [-p 512] [-n 128] [-d 0] [-r 5] [-t THREADS]
                                     [-b 512] [--precision auto|exact|fast] [--device NAME|INDEX] [--json FILE|-]
                                     [-- llama-bench's options]

Each of -r rounds starts `spvk bench` and llama-bench once, each with a warm-up and one timed run of every test;
which one begins changes from round to round. A ratio is spvk's tokens/s by llama.cpp's of the same round, so
that what slows the machine for a while slows both. The table has the median speeds and the ratios' minimum,
median and maximum. -p, -n and -d may be lists (128,512), 0 leaves a test out.

    python bench/compare_llamacpp.py --llama-cpp LIBRARY -m MODEL (-f PROMPT | --npz FILE) [--last 64]
                                     [--greedy 32] [--precision auto|exact|fast] [-t THREADS] [--device …] [--json …]

LIBRARY is any libllama of 2026, llama-cpp-python's too; it runs on its CPU back end. With a prompt (text):
greedy tokens, and at the prompt's --last positions the top token and the KL divergence of llama.cpp's
distribution from spvk's; the softmax rows of the last token, from llama.cpp's evaluation callback
(flash attention off); then the same for a sparse prefill at gapped positions, where llama.cpp takes one. With
exact outputs (CASE/tokens, positions, logits, attn_rows): how far each program is from them.

Exit status 2: a program failed, or cannot be compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import numpy as np
import outputs
from libllama import Library, LlamaCpp
from tables import markdown

from spvk.errors import SpvkError
from spvk.model import Model
from spvk.vulkan import Device

SPVK = [sys.executable, "-m", "spvk"]
KEY = ("n_prompt", "n_gen", "n_depth")


class Failure(Exception):
    """What the user has to mend, in one line."""


# -- comparing: plain data ---------------------------------------------------------------------------------

def speeds(rows: list[dict]) -> dict[tuple[int, int, int], float]:
    """Tokens/s by test (n_prompt, n_gen, n_depth), from either program's JSON list."""
    return {tuple(row[k] for k in KEY): row["avg_ts"] for row in rows}


def summarise(rounds: list[tuple[list[dict], list[dict]]]) -> list[dict]:
    """One row a test, in the order of the first round, from each round's two lists (spvk's, llama.cpp's).

    Raises Failure where a program left out a test that the other made.
    """
    pairs = [(speeds(ours), speeds(theirs)) for ours, theirs in rounds]
    tests = list(pairs[0][0])
    for ours, theirs in pairs:
        if odd := {*ours, *theirs, *tests} - (ours.keys() & theirs.keys() & set(tests)):
            raise Failure(f"{label(*min(odd))}: not in every run, expected the same tests from both programs")
    out = []
    for test in tests:
        ratios = [ours[test] / theirs[test] for ours, theirs in pairs]
        out.append({
            **dict(zip(KEY, test)),
            "spvk_ts": median(ours[test] for ours, _ in pairs),
            "llamacpp_ts": median(theirs[test] for _, theirs in pairs),
            "ratio_min": min(ratios), "ratio_median": median(ratios), "ratio_max": max(ratios),
            "ratios": ratios,
        })
    return out


def label(prompt: int, gen: int, depth: int) -> str:
    return (f"pp{prompt}" if prompt else f"tg{gen}") + (f" @ d{depth}" if depth else "")


def table(rows: list[dict]) -> list[str]:
    """Lines for the terminal, a Markdown table."""
    cells = [("test", "spvk t/s", "llama.cpp t/s", "ratio min", "median", "max")]
    for r in rows:
        numbers = [f"{r[k]:.2f}" for k in ("spvk_ts", "llamacpp_ts")]
        numbers += [f"{r[k]:.3f}" for k in ("ratio_min", "ratio_median", "ratio_max")]
        cells.append((label(*(r[k] for k in KEY)), *numbers))
    return markdown(cells)


# -- running -----------------------------------------------------------------------------------------------

def run(command: list[str]) -> list[dict]:
    """A program's JSON list; Failure with its last line of complaint."""
    name = Path(command[0]).name if command[:len(SPVK)] != SPVK else "spvk bench"
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
    except OSError as error:
        raise Failure(f"{command[0]}: {error.strerror}, expected a program") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["nothing on standard error"]
        raise Failure(f"{name}: exit status {done.returncode}: {said[-1]}")
    try:
        rows = json.loads(done.stdout)
        speeds(rows)
    except (ValueError, TypeError, KeyError):
        raise Failure(f"{name}: its output is no list of measurements, expected llama-bench's JSON") from None
    return rows


def commands(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The two programs' command lines for one round."""
    common = ["-m", args.model, "-p", args.n_prompt, "-n", args.n_gen, "-d", args.n_depth, "-r", "1",
              "-o", "json"]
    ours = [*SPVK, "bench", *common, "-b", str(args.batch), "--precision", args.precision]
    ours += ["--device", args.device] if args.device else []
    theirs = [args.llama_bench, *common, "-b", str(args.batch), "-ub", str(args.batch)]
    theirs += ["-t", str(args.threads)] if args.threads else []
    return ours, theirs + args.options


def alternate(ours: list[str], theirs: list[str], rounds: int) -> list[tuple[list[dict], list[dict]]]:
    """Run both programs in turns; a line of progress a round on a terminal."""
    out = []
    for i in range(rounds):
        if sys.stderr.isatty():
            print(f"round {i + 1}/{rounds}", file=sys.stderr)
        if i % 2:
            second, first = run(theirs), run(ours)
        else:
            first, second = run(ours), run(theirs)
        out.append((first, second))
    return out


def read_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--llama-bench", metavar="PATH", help="compare speeds")
    what.add_argument("--llama-cpp", metavar="LIBRARY", help="compare outputs")
    add("-m", "--model", required=True, metavar="GGUF")
    add("-p", "--n-prompt", default="512", metavar="N,…")
    add("-n", "--n-gen", default="128", metavar="N,…")
    add("-d", "--n-depth", default="0", metavar="N,…")
    add("-r", "--rounds", type=int, default=5, metavar="N")
    add("-t", "--threads", type=int, metavar="N", help="llama.cpp's threads [its own default; outputs: 2]")
    add("-b", "--batch", type=int, default=512, metavar="N", help="tokens read at once, by both")
    add("--device", metavar="NAME|INDEX", help="spvk's device")
    add("-f", "--file", metavar="PROMPT", help="outputs: a text to read")
    add("--npz", metavar="FILE", help="outputs: exact ones, case by case")
    add("--last", type=int, default=64, metavar="N", help="positions compared, the prompt's last")
    add("--greedy", type=int, default=32, metavar="N", help="tokens decoded after the prompt")
    add("--precision", default="auto", choices=("auto", "exact", "fast"), help="spvk's, of products [auto]")
    add("--json", metavar="FILE|-", help="the rows as JSON too (- is standard output, alone)")
    add("options", nargs="*", help="after --: more options for llama-bench")
    args = parser.parse_args(argv)
    for flag, value in (("-r", args.rounds), ("--last", args.last), ("--greedy", args.greedy)):
        if value < 1:
            parser.error(f"{flag}: found {value}, expected at least 1")
    if args.llama_cpp and bool(args.file) == bool(args.npz):
        parser.error("--llama-cpp: expected either -f PROMPT or --npz FILE")
    return args


def compare_outputs(args: argparse.Namespace) -> tuple[object, list[str]]:
    """(what --json writes, lines for the terminal) of --llama-cpp."""
    library = Library(args.llama_cpp)
    cases = outputs.read_cases(args.npz) if args.npz else {}
    text = "" if args.npz else Path(args.file).read_text(encoding="utf-8")
    with Device(args.device) as device, Model(device, args.model, args.precision) as model:
        tokens = np.array(model.tokenizer.encode(text) if text else [], np.int64)
        if args.file and not len(tokens):
            raise SpvkError(f"{args.file}: empty, expected a prompt")
        longest = max((len(case["tokens"]) for case in cases.values()), default=len(tokens) + args.greedy)
        with LlamaCpp(library, args.model, longest, threads=args.threads or 2) as llama:
            if cases:
                rows = outputs.fidelity(model, llama, cases)
                return rows, markdown(outputs.fidelity_table(rows))
            found = outputs.compare_prompt(model, llama, tokens, args.last, args.greedy)
            return found, markdown(outputs.prompt_table(found))


def compare_speeds(args: argparse.Namespace) -> tuple[object, list[str]]:
    """The same of --llama-bench."""
    rows = summarise(alternate(*commands(args), args.rounds))
    return rows, table(rows)


def main(argv: list[str] | None = None) -> int:
    args = read_arguments(argv)
    try:
        found, lines = (compare_outputs if args.llama_cpp else compare_speeds)(args)
        text = json.dumps(found, indent=2)
        if args.json and args.json != "-":
            Path(args.json).write_text(text + "\n")
    except (Failure, SpvkError) as failure:
        print(f"compare_llamacpp: {failure}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"compare_llamacpp: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except UnicodeDecodeError as error:
        print(f"compare_llamacpp: {args.file}: byte {error.start} is no UTF-8", file=sys.stderr)
        return 2
    print(text if args.json == "-" else "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
