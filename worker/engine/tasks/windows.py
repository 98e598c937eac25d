"""How a document that is longer than the model's context is cut into windows: pure functions over positions.

A sequence is the BOS, if there is one, and the ids of a document. Its first position has no context and is never
scored. Every other position is scored in exactly one window (with `truncate`, only those of the first are scored).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from jobs.tasks.score import Window


@dataclass(frozen=True, slots=True)
class TokenWindow:
    """Positions [start, stop) of a sequence are read together; those from `first_scored` on are scored."""

    start: int
    first_scored: int  # > start: a scored position has context
    stop: int


def cut(length: int, kind: Window, max_length: int, stride: int) -> Iterator[TokenWindow]:
    """The windows of a sequence of `length` positions, in order; none if there is nothing to score.

    `max_length` counts what it counts where the kinds were defined. In transformers' recipe (`stride`) a window has
    `max_length` positions, scored ones included; so it does here for `truncate`. In lm-evaluation-harness (`disjoint`)
    the model reads `max_length` positions and scores the one after the last of them too, so a window has one more. A
    sequence that fits is one window. Only the kind `stride` uses `stride`; 1 <= stride < max_length.
    """
    if length < 2:
        return
    size = max_length + 1 if kind is Window.DISJOINT else max_length
    yield TokenWindow(0, 1, min(size, length))
    match kind:
        case Window.STRIDE:
            yield from _strides(length, size, stride)
        case Window.DISJOINT:
            yield from _disjoint(length, size)
        case Window.TRUNCATE:
            pass


def _strides(length: int, size: int, stride: int) -> Iterator[TokenWindow]:
    """The windows after the first: one begins every `stride` positions and scores the positions that the window before
    it did not reach, with at least size - stride positions of context. These are the windows of "Perplexity of
    fixed-length models" in the documentation of transformers (perplexity.md: begin_loc, end_loc, trg_len = end_loc -
    prev_end_loc)."""
    start, first_scored = stride, size
    while first_scored < length:
        stop = min(start + size, length)
        yield TokenWindow(start, first_scored, stop)
        start, first_scored = start + stride, stop


def _disjoint(length: int, size: int) -> Iterator[TokenWindow]:
    """The windows after the first: each scores the positions that follow the window before it, with one position of
    context. The last is as long as the others, so it has more context. These are the windows of lm-evaluation-harness
    0.4 (lm_eval/utils.py: make_disjoint_window over get_rolling_token_windows with context_len=1,
    max_seq_len = size - 1)."""
    first_scored = size
    while first_scored < length:
        stop = min(first_scored + size - 1, length)
        yield TokenWindow(stop - size, first_scored, stop)
        first_scored = stop
