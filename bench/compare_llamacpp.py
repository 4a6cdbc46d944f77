"""spvk beside llama.cpp on the same file: `spvk bench` and llama-bench in turns, the ratios of their speeds.

    python bench/compare_llamacpp.py --llama-bench PATH -m MODEL [-p 512] [-n 128] [-d 0] [-r 5] [-t THREADS]
                                     [-b 512] [--device NAME|INDEX] [--json FILE|-] [-- llama-bench's options]

Each of -r rounds starts both programs once, each with a warm-up and one timed run of every test; which one
begins changes from round to round. A ratio is spvk's tokens/s by llama.cpp's of the same round, so that what
slows the machine for a while slows both. The table has the median speeds and the ratios' minimum, median and
maximum. -p, -n and -d may be lists (128,512), 0 leaves a test out. Exit status 2: a program failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median

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
    widths = [max(map(len, column)) for column in zip(*cells)]
    cells.insert(1, tuple("-" * w if not i else "-" * (w - 1) + ":" for i, w in enumerate(widths)))
    return ["| " + " | ".join(c.ljust(w) if not i else c.rjust(w)
                              for i, (c, w) in enumerate(zip(row, widths))) + " |" for row in cells]


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
    ours = [*SPVK, "bench", *common, "-b", str(args.batch)]
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
    add("--llama-bench", required=True, metavar="PATH")
    add("-m", "--model", required=True, metavar="GGUF")
    add("-p", "--n-prompt", default="512", metavar="N,…")
    add("-n", "--n-gen", default="128", metavar="N,…")
    add("-d", "--n-depth", default="0", metavar="N,…")
    add("-r", "--rounds", type=int, default=5, metavar="N")
    add("-t", "--threads", type=int, metavar="N", help="llama.cpp's threads")
    add("-b", "--batch", type=int, default=512, metavar="N", help="tokens read at once, by both")
    add("--device", metavar="NAME|INDEX", help="spvk's device")
    add("--json", metavar="FILE|-", help="the rows as JSON too (- is standard output, alone)")
    add("options", nargs="*", help="after --: more options for llama-bench")
    args = parser.parse_args(argv)
    if args.rounds < 1:
        parser.error(f"-r: found {args.rounds}, expected at least 1")
    return args


def main(argv: list[str] | None = None) -> int:
    args = read_arguments(argv)
    try:
        rows = summarise(alternate(*commands(args), args.rounds))
        text = json.dumps(rows, indent=2)
        if args.json and args.json != "-":
            Path(args.json).write_text(text + "\n")
    except Failure as failure:
        print(f"compare_llamacpp: {failure}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"compare_llamacpp: {args.json}: {error.strerror}", file=sys.stderr)
        return 2
    print(text if args.json == "-" else "\n".join(table(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
