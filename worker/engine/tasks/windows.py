"""How a document is read that is longer than the model's context: pure functions over positions.

A sequence is the BOS, where there is one, and the ids of a document. Its first position has nothing before it and is
never scored; of all others each is scored once, in one window (with `truncate`: those of the first window).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from jobs.spec import Window


@dataclass(frozen=True, slots=True)
class Span:
    """Positions [start, stop) of a sequence go through the model; from `first_scored` on they are scored there."""

    start: int
    first_scored: int  # > start: what is scored has something before it
    stop: int


def cut(length: int, kind: Window, max_length: int, stride: int) -> Iterator[Span]:
    """The windows of a sequence of `length` positions, in order; none where there is nothing to score.

    `max_length` is counted as those do who defined the kinds: transformers' recipe lets a window have so many
    positions, what is scored included; lm-evaluation-harness lets so many go in, and scores what follows the last of
    them as well. A sequence that fits is one window. 1 <= stride < max_length; `stride` is for the kind of that name
    alone.
    """
    if length < 2:
        return
    size = max_length + 1 if kind is Window.DISJOINT else max_length
    yield Span(0, 1, min(size, length))
    match kind:
        case Window.STRIDE:
            yield from _strides(length, size, stride)
        case Window.DISJOINT:
            yield from _disjoint(length, size)
        case Window.TRUNCATE:
            pass


def _strides(length: int, size: int, stride: int) -> Iterator[Span]:
    """Windows begin every `stride` positions; each scores what those before it did not reach, so after at least
    size - stride others. These are the windows of "Perplexity of fixed-length models" in the documentation of
    transformers (perplexity.md: begin_loc, end_loc, trg_len = end_loc - prev_end_loc)."""
    start, first_scored = stride, size
    while first_scored < length:
        stop = min(start + size, length)
        yield Span(start, first_scored, stop)
        start, first_scored = start + stride, stop


def _disjoint(length: int, size: int) -> Iterator[Span]:
    """Windows follow each other, each after one position of context; the last is as long as the others, and what it
    does not score is context. These are the windows of lm-evaluation-harness 0.4 (lm_eval/utils.py:
    make_disjoint_window over get_rolling_token_windows with context_len=1, max_seq_len = size - 1)."""
    first_scored = size
    while first_scored < length:
        stop = min(first_scored + size - 1, length)
        yield Span(stop - size, first_scored, stop)
        first_scored = stop
