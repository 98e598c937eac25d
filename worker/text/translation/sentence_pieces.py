"""The pieces of a sentence as a translation model takes them, whatever surrounds them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from jobs.errors import SpecError
from worker.text.translation.piece_cutter import CutPiece
from worker.text.translation.piece_splits import split_pieces


@dataclass(frozen=True, slots=True)
class TargetPiece:
    """A piece of a target text with start and stop in UTF-8 bytes. If several pieces make up one character, all but the
    last have an empty span."""

    id: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class TargetBeginning:
    """The ids with which a generated target begins because of its language."""

    start_id: int | None = None  # the decoder's start token; None: the model's own
    forced_id: int | None = None  # the first token; None: the model chooses it


def split_ids(
    pieces: Sequence[CutPiece], max_tokens: int, wrap: Callable[[list[int]], list[int]], around: str
) -> list[list[int]]:
    """The ids of a sentence in lists of at most `max_tokens`, each wrapped (`split_pieces`).

    `around` names what `wrap` adds, for the SpecError that is raised where no piece fits between.
    """
    room = max_tokens - len(wrap([]))
    if room < 1:
        raise SpecError(f"max_tokens is {max_tokens}; no piece fits between {around}")
    parts = split_pieces([piece.text for piece in pieces], room)
    return [wrap([piece.id for piece in pieces[part]]) for part in parts]


def draw_ids(rng: Random, by_frequency: Sequence[int], num_pieces: int) -> list[int]:
    """Draw `num_pieces` ids, alternately by Zipf's law and uniformly; `by_frequency`: the most frequent first."""
    drawn = rng.choices(by_frequency, [1 / (rank + 1) for rank in range(len(by_frequency))], k=num_pieces)
    drawn[1::2] = rng.choices(by_frequency, k=num_pieces // 2)
    return drawn
