"""How often a policy keeps all that a question about plain text needs: 14 questions about examples/ferry.txt.

    python bench/plain_text.py [-md DRAFT] [--policy v3,auto,…] [--keep preset,0.3,0.2,0.1] [--device NAME|INDEX]

The draft reads the text with each question and scores it; nothing is answered. A question counts where every token
of the sentence, or of the part of it, that it needs was kept. Policies are those of `spvk eval`; without a draft it is
the embedded one, which knows no such text. Prints a Markdown table: questions, and the mean fraction of tokens kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import numpy as np
from tables import markdown

from spvk import embedded, engine, job
from spvk.errors import SpvkError
from spvk.evaluate.gold import spans_of_texts
from spvk.evaluate.policies import Policy, read_keeps, read_policies
from spvk.evaluate.table import keep_text
from spvk.evaluate.trial import rows_key
from spvk.model import Model
from spvk.prepare import prepare
from spvk.specprefill import choose, positions_of, read_structure
from spvk.vulkan import Device

EXAMPLES = Path(__file__).parents[1] / "examples"
TEXT = (EXAMPLES / "ferry.txt").read_text(encoding="utf-8").rsplit("\n\n", 1)[0]
QUESTIONS = json.loads((EXAMPLES / "ferry_questions.json").read_text(encoding="utf-8"))


def results(model: Model, runs: list[tuple[Policy, float | str]]) -> Iterator[list[tuple[bool, float]]]:
    """For each question, of each run: whether all that is needed was kept, and the fraction of tokens kept."""
    for q in QUESTIONS:
        tokens = np.array(job.Prompt(f"{TEXT}\n\n{q['question']}").encode(model))
        pieces = [model.tokenizer.token_bytes(t) for t in tokens.tolist()]
        needed, scores, out = positions_of(spans_of_texts(pieces, [q["needed"]])), {}, []
        for policy, keep in runs:
            settings = engine.settle(policy.settings(keep), model)
            if (key := rows_key(settings)) not in scores:
                prepare(model, len(tokens) + settings.lookahead, engine.BATCH, engine.capture_for(settings))
                heads = job.heads_of(settings, model.path, model.config)
                scores[key] = engine.score(model, tokens, settings, heads=heads)
            structure = read_structure(tokens, model.tokenizer, settings) if settings.protect == "on" else None
            chosen = choose(scores[key], settings, structure, pooled=engine.by_head(settings))
            out.append((bool(np.isin(needed, chosen.positions).all()), chosen.kept_fraction))
        yield out


def table(runs: list[tuple[Policy, float | str]], found: list[list[tuple[bool, float]]]) -> list[str]:
    """Markdown, a row a policy and keep fraction."""
    rows = [["policy", "keep", f"of {len(found)}", "kept"]]
    for (policy, keep), column in zip(runs, zip(*found)):
        whole, kept = zip(*column)
        rows.append([f"`{policy.label}`", keep_text(keep), str(sum(whole)), f"{100 * mean(kept):.0f} %"])
    return markdown(rows)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-md", "--draft", default=str(embedded.DRAFT))
    parser.add_argument("--policy", default="v3,auto")
    parser.add_argument("--keep", default="preset,0.3,0.2,0.1")
    parser.add_argument("--device")
    o = parser.parse_args(arguments)
    try:
        runs = [(p, keep) for p in read_policies(o.policy) for keep in p.keeps(read_keeps(o.keep)) if keep]
        with Device(o.device) as device:
            with Model(device, o.draft, "auto") as model:
                print("\n".join(table(runs, list(results(model, runs)))))
    except SpvkError as error:
        print(f"plain_text.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
