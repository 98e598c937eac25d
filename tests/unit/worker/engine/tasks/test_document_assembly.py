"""From the hypotheses of segments to the text and the figures of a document."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.outcome import Flag, SegmentTranslation
from worker.engine.tasks.document_assembly import best_combinations, join_document, join_pieces
from worker.text.segments import Span, segment


def translated(
    *texts: str, scores: tuple[float, ...] | None = None, flags: tuple[Flag, ...] = ()
) -> SegmentTranslation:
    return SegmentTranslation(
        texts=texts,
        scores=scores or tuple(-1.0 - rank for rank in range(len(texts))),
        log_prob=-3.0,
        num_source_tokens=5,
        num_target_tokens=4,
        flags=flags,
    )


def sentences(*texts: str) -> list[Span]:
    """Spans of a document: texts with a letter are sentences, others are gaps that pass through."""
    return [Span(text, translatable=bool(text.strip())) for text in texts]


def test_gaps_and_line_breaks_between_segments_survive() -> None:
    text = "  Hi.  How are you?\r\n\n\t- 42 -\n Bye. \n"
    spans = segment(text, "en")
    answers = {"Hi.": "Salut.", "How are you?": "Ça va ?", "Bye.": "Au revoir."}
    found = [translated(answers[span.text]) for span in spans if span.translatable]

    document = join_document(spans, found, num_reused=0, n_best=1)

    assert document.text == "  Salut.  Ça va ?\r\n\n\t- 42 -\n Au revoir. \n"


def test_a_sentence_without_a_letter_passes_through_and_is_flagged() -> None:
    document = join_document(segment("42 - 17.\nYes.", "en"), [translated("Oui.")], num_reused=0, n_best=1)

    assert document.text == "42 - 17.\nOui."
    assert document.flags == (Flag.PASSED_THROUGH,)
    assert document.num_segments == 2


@pytest.mark.parametrize("text", ["", "  ", "\n\n"])
def test_a_document_without_sentences_is_returned_unchanged(text: str) -> None:
    document = join_document(segment(text, "en"), [], num_reused=0, n_best=3)

    assert (document.text, document.num_segments, document.flags, document.alternatives) == (text, 0, (), ())


def test_the_figures_of_a_document_are_the_sums_over_its_segments() -> None:
    found = [translated("a", flags=(Flag.TRUNCATED,)), translated("b", flags=(Flag.REPETITION, Flag.TRUNCATED))]
    document = join_document(sentences("A.", " ", "B."), found, num_reused=1, n_best=1)

    assert (document.log_prob, document.num_source_tokens, document.num_target_tokens) == (-6.0, 10, 8)
    assert (document.num_segments, document.num_reused) == (2, 1)
    assert document.flags == (Flag.REPETITION, Flag.TRUNCATED)


def test_alternatives_are_the_best_combinations_of_hypotheses() -> None:
    found = [translated("a", "A", scores=(-1.0, -1.5)), translated("b", "B", scores=(-2.0, -2.1))]
    document = join_document(sentences("1", " ", "2"), found, num_reused=0, n_best=3)

    assert document.text == "a b"
    assert [(one.text, one.score) for one in document.alternatives] == [
        ("a b", pytest.approx(-3.0)),
        ("a B", pytest.approx(-3.1)),
        ("A b", pytest.approx(-3.5)),
    ]


def test_a_single_hypothesis_gives_no_alternatives() -> None:
    assert join_document(sentences("1"), [translated("a")], num_reused=0, n_best=1).alternatives == ()


@given(
    st.lists(st.lists(st.floats(-9, 0), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(1, 6),
)
def test_lazily_found_combinations_equal_the_best_of_all_combinations(parts: list[list[float]], n_best: int) -> None:
    found = [translated(*map(str, range(len(scores))), scores=tuple(sorted(scores, reverse=True))) for scores in parts]
    everything = sorted((math.fsum(choice) for choice in itertools.product(*parts)), reverse=True)

    best = best_combinations(found, n_best)

    assert [one.score for one in best] == pytest.approx(everything[:n_best])
    assert len({one.texts for one in best}) == len(best)


def test_pieces_of_a_segment_are_joined_as_their_script_asks_and_flagged() -> None:
    joined = join_pieces([translated("那只狗", "Der Hund"), translated("在叫。", "bellt.")], 2)

    assert joined.texts[0] == "那只狗在叫。"
    assert joined.flags == (Flag.SPLIT,)
    assert (joined.log_prob, joined.num_source_tokens, joined.num_target_tokens) == (-6.0, 10, 8)


def test_a_segment_of_one_piece_is_returned_unchanged() -> None:
    piece = translated("a", "b")

    assert join_pieces([piece], 2) is piece


@pytest.mark.parametrize("gap", ["", " ", "\u3000"])
@pytest.mark.parametrize(
    ("answers", "text"), [(("Hello.", "Bye."), "Hello. Bye."), (("你好。", "再見。"), "你好。再見。")]
)
def test_the_space_between_sentences_is_that_of_the_translation(gap: str, answers: tuple[str, ...], text: str) -> None:
    spans = [span for span in sentences("Hi!", gap, "Bye.") if span.text]

    assert join_document(spans, [translated(answer) for answer in answers], num_reused=0, n_best=1).text == text


def test_lines_and_the_margins_of_a_document_stay_in_a_script_without_spaces() -> None:
    text = " One. Two.\n\n  Three.\tFour. 5. \n"
    answers = [translated(answer) for answer in ("一。", "二。", "三。", "四。")]

    document = join_document(segment(text, "en"), answers, num_reused=0, n_best=1)

    assert document.text == " 一。二。\n\n  三。\t四。5. \n"


def aligned(text: str, spans: list[Span], *answers: str) -> list[tuple[str, str]]:
    """The sentences of a document and what its translation has in their place, as the offsets say."""
    document = join_document(spans, [translated(answer) for answer in answers], num_reused=0, n_best=1)
    return [
        (text[one.source_start : one.source_stop], document.text[one.target_start : one.target_stop])
        for one in document.segments
    ]


def test_segments_say_where_a_sentence_and_its_translation_are() -> None:
    text = "  Hi.  How are you?\r\n\n\t- 42 -\n Bye 😀. \n"

    found = aligned(text, segment(text, "en"), "Salut.", "Ça va ?", "Au revoir.")

    assert found == [("Hi.", "Salut."), ("How are you?", "Ça va ?"), ("Bye 😀.", "Au revoir.")]


def test_a_space_that_was_added_belongs_to_no_segment() -> None:
    text = "你好。再见。"

    assert aligned(text, sentences("你好。", "再见。"), "Hello.", "Bye.") == [("你好。", "Hello."), ("再见。", "Bye.")]


def test_segments_are_right_where_a_space_was_left_out() -> None:
    text = "Hello. Bye."

    assert aligned(text, segment(text, "en"), "你好。", "再见。") == [("Hello.", "你好。"), ("Bye.", "再见。")]


def test_a_document_without_sentences_has_no_segments() -> None:
    assert aligned(" 42 ", segment(" 42 ", "en")) == []


def test_segments_are_those_of_the_best_alternative() -> None:
    found = [translated("a", "AAA", scores=(-1.0, -1.5)), translated("b", "B", scores=(-2.0, -2.1))]

    document = join_document(sentences("1", " ", "2"), found, num_reused=0, n_best=3)

    assert document.segments == ((0, 1, 0, 1), (2, 3, 2, 3))
