"""Token spans of what is needed, its sentences, and cuts by chunk edges."""

import pytest

from spvk.evaluate.gold import is_cut, question_of, sentence_around, spans_of_texts

PIECES = [b"A", b" cat", b" sat", b".", b" The", b" k", b"ey is ", b"7", b".", b"\n", b"Go", b"."]


def test_spans_cover_half_tokens():
    assert spans_of_texts(PIECES, ["The key is 7."]) == [(4, 9)]
    assert spans_of_texts(PIECES, ["A", "Go."]) == [(0, 1), (10, 12)]
    assert spans_of_texts([b"caf\xc3", b"\xa9!"], ["é"]) == [(0, 2)]


def test_a_text_must_stand_once():
    with pytest.raises(ValueError, match="'cow' stands 0 times"):
        spans_of_texts(PIECES, ["cow"])
    with pytest.raises(ValueError, match="'.' stands 3 times"):
        spans_of_texts(PIECES, ["."])


@pytest.mark.parametrize(
    "span, sentence", [((7, 8), (4, 10)), ((0, 1), (0, 4)), ((3, 5), (0, 10)), ((11, 12), (10, 12))]
)
def test_sentences_around_a_span(span, sentence):
    assert sentence_around(PIECES, span) == sentence


def test_the_question_goes_on_to_the_end():
    assert question_of(PIECES, None) == (10, 12)
    assert question_of(PIECES, "key is 7.") == (5, 12) and question_of(PIECES, "at") == (2, 12)
    assert question_of([b"one", b" two"], None) == (0, 2)
    chat = [*PIECES[:9], b" Where", b"?", b"<|im_end|>", b"\n", b"<|assistant|>"]
    assert question_of(chat, None) == (9, 14)  # the turn's opening is not what asks


def test_an_edge_inside_a_span_cuts_it():
    assert not is_cut([(0, 32), (32, 64)]) and is_cut([(0, 5), (31, 33)])
    assert is_cut([(3, 5)], chunk=4) and not is_cut([])
