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

from tables import markdown

from spvk import embedded, engine
from spvk.errors import SpvkError
from spvk.evaluate.policies import Plan, read_keeps, read_policies
from spvk.evaluate.prompts import Question
from spvk.evaluate.table import keep_text
from spvk.evaluate.trial import Trial, encode
from spvk.model import Model
from spvk.vulkan import Device

EXAMPLES = Path(__file__).parents[1] / "examples"
TEXT = (EXAMPLES / "ferry.txt").read_text(encoding="utf-8").rsplit("\n\n", 1)[0]
QUESTIONS = json.loads((EXAMPLES / "ferry_questions.json").read_text(encoding="utf-8"))


def results(model: Model, plan: Plan) -> Iterator[list[tuple[bool, float]]]:
    """For each question, of each run: whether all that is needed was kept, and the fraction of tokens kept."""
    for q in QUESTIONS:
        text, asked, needed = f"{TEXT}\n\n{q['question']}", q["question"], (q["needed"],)
        question = Question(asked, asked, (), text=text, needed=needed, asked=asked)
        trial = Trial(question, encode(question, model, model, plan), model, model, plan)
        settled = ((policy, engine.settle(policy.settings(keep), model)) for policy, keep in plan.runs)
        chosen = [trial.select(policy, settings, engine.Clock()) for policy, settings in settled]
        yield [(trial.survived(selection), selection.kept_fraction) for selection in chosen]


def table(plan: Plan, found: list[list[tuple[bool, float]]]) -> list[str]:
    """Markdown, a row a policy and keep fraction."""
    rows = [["policy", "keep", f"of {len(found)}", "kept"]]
    for (policy, keep), column in zip(plan.runs, zip(*found)):
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
        plan = Plan(read_policies(o.policy), read_keeps(o.keep), precision="auto")
        with Device(o.device) as device:
            with Model(device, o.draft, plan.precision) as model:
                print("\n".join(table(plan, list(results(model, plan)))))
    except SpvkError as error:
        print(f"plain_text.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
