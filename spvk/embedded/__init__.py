"""What comes with the package: a trained pair (docs/TRAINING.md) and the demo's document.

The pair reads generated English and answers questions about it; it is there to try spvk and to measure
selection with, not to be talked to.
"""

import json
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
TARGET, DRAFT = str(FOLDER / "target.gguf"), str(FOLDER / "draft.gguf")


@dataclass(frozen=True)
class Example:
    """A document, a question about it and the right answer."""

    document: str
    question: str
    truth: str

    @property
    def prompt(self) -> str:
        return f"{self.document}\n\n{self.question}"


def example() -> Example:
    """The demo's: about 4,000 tokens."""
    return Example(**json.loads((FOLDER / "demo.json").read_text(encoding="utf-8")))
