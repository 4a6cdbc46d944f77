"""The demo's document: `python -m training.demo spvk/embedded/demo.json --vocabulary build/training/vocabulary.json`.

Eight competing facts among filler; names, values and wordings are those that training never draws.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from . import data, documents
from . import tokenizer as bpe


def example(vocabulary: Path, length: int, seed: int) -> dict[str, str]:
    """`document`, `question` and `truth`, about `length` tokens in all."""
    tokenizer = bpe.make_tokenizer(bpe.load(vocabulary))
    writer = documents.Writer(tokenizer)
    world = data.World(random.Random(f"demo {seed}"), held_out=True)
    made = None
    while made is None:
        puzzles = data.competing(world, 8)
        made = writer.conversation(world, puzzles, [0], length)
    text = tokenizer.decode(made.tokens, skip_special=True)
    document, question, _ = text.partition(puzzles[0].question)
    return {"document": document.strip(), "question": question, "truth": puzzles[0].answer}


def main(arguments: list[str] | None = None) -> None:
    p = argparse.ArgumentParser(prog="training.demo", description="Write the demo's document and question.")
    p.add_argument("out", type=Path)
    p.add_argument("--vocabulary", type=Path, required=True)
    p.add_argument("--length", type=int, default=4000, help="tokens")
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args(arguments)
    a.out.write_text(json.dumps(example(a.vocabulary, a.length, a.seed), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
