"""Where a long document is cut into windows: general rules, and the definitions of other tools as references."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.tasks.score import Window
from tests.places import GOLDEN
from worker.engine.tasks.scoring import TokenWindow, cut_windows

RECORDED = GOLDEN / "rolling_windows.json"
LENGTH = st.integers(0, 200)


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int]:
    """max_length and stride."""
    max_length = draw(st.integers(2, 40))
    return max_length, draw(st.integers(1, max_length - 1))


@pytest.mark.parametrize("kind", [Window.STRIDE, Window.DISJOINT])
@given(length=LENGTH, size=sizes())
def test_every_position_but_the_first_is_scored_once(kind: Window, length: int, size: tuple[int, int]) -> None:
    spans = list(cut_windows(length, kind, *size))

    assert [place for span in spans for place in range(span.first_scored, span.stop)] == list(range(1, length))


@pytest.mark.parametrize("kind", Window)
@given(length=LENGTH, size=sizes())
def test_no_window_is_longer_than_it_may_be_and_each_has_context(
    kind: Window, length: int, size: tuple[int, int]
) -> None:
    for span in cut_windows(length, kind, *size):
        assert 0 <= span.start < span.first_scored < span.stop <= span.start + size[0] + (kind is Window.DISJOINT)


@pytest.mark.parametrize("kind", Window)
@given(length=st.integers(2, 200), size=sizes())
def test_a_document_that_fits_is_one_window(kind: Window, length: int, size: tuple[int, int]) -> None:
    spans = list(cut_windows(length, kind, *size))
    fits = size[0] + (kind is Window.DISJOINT)

    assert spans[0] == TokenWindow(0, 1, min(length, fits))
    assert (len(spans) == 1) == (length <= fits or kind is Window.TRUNCATE)


@given(length=LENGTH, size=sizes())
def test_each_token_has_at_least_the_context_that_the_stride_guarantees(length: int, size: tuple[int, int]) -> None:
    max_length, stride = size
    for span in list(cut_windows(length, Window.STRIDE, max_length, stride))[1:]:
        assert span.first_scored - span.start >= max_length - stride


@given(length=LENGTH, size=sizes())
def test_strided_windows_equal_the_recipe_of_transformers(length: int, size: tuple[int, int]) -> None:
    """The loop of "Perplexity of fixed-length models", whose first window cannot score its first position."""
    max_length, stride = size
    expected = []
    previous_end = 0
    for begin in range(0, length, stride):
        end = min(begin + max_length, length)
        num_targets = end - previous_end
        expected.append(TokenWindow(begin, max(1, end - num_targets), end))
        previous_end = end
        if end == length:
            break

    assert list(cut_windows(length, Window.STRIDE, max_length, stride)) == [
        span for span in expected if span.first_scored < span.stop
    ]


@given(length=LENGTH, size=sizes())
def test_each_disjoint_window_has_one_position_of_context(length: int, size: tuple[int, int]) -> None:
    """Except the last, which is filled up with context."""
    max_length, _ = size
    spans = list(cut_windows(length, Window.DISJOINT, max_length, 1))

    for span in spans[1:-1]:
        assert (span.start, span.stop) == (span.first_scored - 1, span.first_scored + max_length)
    if len(spans) > 1:
        assert spans[-1].stop - spans[-1].start == max_length + 1


def test_disjoint_windows_equal_those_of_lm_evaluation_harness() -> None:
    """lm-evaluation-harness' own, recorded (tests/golden/make_rolling_windows.py). It begins to count after the
    token before the document."""
    for case in json.loads(RECORDED.read_text())["cases"]:
        spans = cut_windows(case["length"] + 1, Window.DISJOINT, case["max_length"], 1)
        assert [[span.start - 1, span.first_scored - 1, span.stop - 1] for span in spans] == case["windows"]


def test_a_sequence_of_one_token_has_nothing_to_score() -> None:
    assert [list(cut_windows(length, kind, 8, 4)) for kind in Window for length in (0, 1)] == [[]] * 6


def test_windows_by_hand() -> None:
    assert list(cut_windows(10, Window.STRIDE, 4, 2)) == [
        TokenWindow(0, 1, 4),
        TokenWindow(2, 4, 6),
        TokenWindow(4, 6, 8),
        TokenWindow(6, 8, 10),
    ]
    assert list(cut_windows(9, Window.STRIDE, 4, 3)) == [
        TokenWindow(0, 1, 4),
        TokenWindow(3, 4, 7),
        TokenWindow(6, 7, 9),
    ]
    assert list(cut_windows(9, Window.DISJOINT, 3, 1)) == [
        TokenWindow(0, 1, 4),
        TokenWindow(3, 4, 7),
        TokenWindow(5, 7, 9),
    ]
    assert list(cut_windows(9, Window.TRUNCATE, 4, 1)) == [TokenWindow(0, 1, 4)]
