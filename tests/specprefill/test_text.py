"""Sentences and code, told from the text alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import spvk.specprefill.text as text_module
from spvk.specprefill.text import indented_of, kind_of, sentence_starts

C = """#include <stdio.h>
// print
int main(void) {
    for (int i = 0; i < 3; i++) {
        printf("%d\\n", i);
    }
    return 0;
}
"""
PROSE = """The sluice is opened in spring, when the river is high (see the table).

In 1874 the weir was raised by 3 feet; the miller complained. It made no difference = none at all.
For two years nobody used the lower gate, and the wheel stood still.
- first, clean the grate
- then, open the gate
"""


def test_code_of_several_languages():
    assert kind_of(Path(text_module.__file__).read_text(encoding="utf-8")).name == "code"
    assert kind_of(C) == ("code", 1.0)
    assert kind_of("```\nanything at all\n```") == ("code", 1.0)
    assert kind_of('{\n  "name": "a",\n  "list": [1, 2]\n}').name == "code"
    assert kind_of("export PATH=/bin\nx := f(1)\nfunc main() {\n}\n").name == "code"


def test_prose():
    assert kind_of(PROSE) == ("prose", 0.0)
    assert kind_of("") == ("prose", 0.0)
    assert kind_of(" \n\n") == ("prose", 0.0)


def test_characters_are_weighed_not_lines():
    line = "x = 1\n"  # 3 visible characters
    prose = "word " * 10 + "\n"  # 40
    assert kind_of(prose + line * 5) == ("prose", 15 / 55)
    assert kind_of(prose + line * 6) == ("code", 18 / 58)


@pytest.mark.parametrize(
    "pieces, starts",
    [
        ([b"A", b" cat", b".", b" It", b" sat", b"."], [3]),
        ([b"A", b".", b" ", b"\n\n", b"B"], [4]),
        ([b"A", b'."', b" B", b"?)", b" C", b"!", b" D"], [2, 4, 6]),
        ([b"one\n", b"two", b"\n", b"three"], [1, 3]),
        ([b" the", b" door", b" .", b" then"], [3]),
        ([b"3", b".", b"14"], [2]),
        ([b"e.g", b" so", b"on"], []),
        ([b"<|im_end|>", b"\n", b"<|im_start|>"], [2]),
        ([], []),
    ],
)
def test_sentence_starts(pieces, starts):
    assert sentence_starts(pieces).tolist() == starts


@pytest.mark.parametrize(
    "pieces, indented",
    [
        ([b"def f():", b"\n", b"   ", b" return", b" 1", b"\n\n", b"def"], [3]),
        ([b"a:\n", b"  b\n", b"\tc\n", b"d"], [1, 2]),
        ([b"One", b".", b" Two", b".", b"\n", b"Three"], []),
        ([b"x", b".", b"\n", b" ", b"\n", b"y"], []),  # an empty line's space is no indentation
        ([b"\n", b" ", b"y"], [2]),
        ([], []),
    ],
)
def test_indented_lines(pieces, indented):
    assert indented_of(sentence_starts(pieces), pieces).tolist() == indented
