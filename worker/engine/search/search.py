"""
Greedy search and beam search, token for token as transformers' `generate`, over a decoding step.

Knows: scores and ids. Does not know: sessions, tokenizers, caches. A sentence leaves as soon as its result is known,
another may take its place at any step, and no result depends on which other sentences are there.

Shapes: R rows of the step: one a sentence (greedy), or as many as beams · V vocabulary.
"""

from collections.abc import Sequence
from typing import Protocol

from worker.engine.search.beam import BeamSearch
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.greedy import GreedySearch, Resolve
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.logit_rules import Floats, Ids
from worker.engine.search.rows import RowOrder


class Steps(Protocol):
    """What a search needs of a decoder."""

    def step(self, last_ids: Ids) -> Floats:
        """Append one id to each row (R,) and return the logits of the next (R, V), the caller's to change."""

    def select(self, rows: Ids) -> None:
        """Let row i continue what was row rows[i]; rows that are not named are gone."""


class Search(Protocol):
    """Sentences on their way through a decoder."""

    @property
    def num_sentences(self) -> int: ...
    @property
    def last_ids(self) -> Ids: ...
    def admit(self, sentences: Sequence[int]) -> None: ...
    def advance(self, logits: Floats, scales: Floats | None = None) -> tuple[dict[int, list[Hypothesis]], RowOrder]: ...


def new_search(rules: GenerationConfig, *, rows_at_first: int | None = None, resolve: Resolve | None = None) -> Search:
    """A search without sentences. `rows_at_first`: rows of a sentence at its first step, where its beams are still
    equal: all of them, or 1; with 1, all sentences have to begin together. `resolve`: see GreedySearch."""
    if rules.num_beams == 1:
        return GreedySearch(rules, resolve)
    return BeamSearch(rules, rows_at_first=rows_at_first or rules.num_beams)


def search(steps: Steps, num_rows: int, rules: GenerationConfig) -> list[list[Hypothesis]]:
    """Sentences that begin together: the hypotheses of each, best first: one with a single beam, else as many as there
    are beams. The first step has one row a sentence."""
    return follow(new_search(rules, rows_at_first=1), steps, num_rows)


def follow(running: Search, steps: Steps, num_rows: int) -> list[list[Hypothesis]]:
    """Sentences that begin together, to their end."""
    running.admit(range(num_rows))
    found: dict[int, list[Hypothesis]] = {}
    while running.num_sentences:
        ended, moves = running.advance(steps.step(running.last_ids))
        found |= ended
        if moves is not None and running.num_sentences:
            steps.select(moves)
    return [found[sentence] for sentence in range(num_rows)]
