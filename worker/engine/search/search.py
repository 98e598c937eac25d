"""
Greedy search and beam search over decoding steps; they give the tokens that `generate` of transformers gives.

Knows: scores and ids. Does not know: sessions, tokenizers, caches. A sentence leaves as soon as its result is known,
another may take its place at any step, and no result depends on the other sentences.

Shapes: R rows of a step: one per sentence (greedy), or one per beam · V vocabulary.
"""

from typing import Protocol

from worker.engine.search.beam import BeamSearch
from worker.engine.search.constrained import ConstrainedSearch
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.greedy import GreedySearch, Rescore
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.logit_rules import Floats, Ids


class Steps(Protocol):
    """A decoder, step by step, as a search drives it."""

    def step(self, last_ids: Ids) -> Floats:
        """Append one id to each row (R,). Returns the logits of the next id (R, V), which the caller may change."""

    def select(self, rows: Ids) -> None:
        """Give row i the content of row rows[i]; rows that are not in `rows` are dropped."""


Search = GreedySearch | BeamSearch  # the running sentences of a search: their tokens and scores


def new_search(
    rules: GenerationConfig, *, first_step_rows: int | None = None, rescore: Rescore | None = None
) -> Search:
    """A search without sentences. `first_step_rows`: rows of a sentence at its first step, where its beams are still
    equal: one per beam, or 1, and then all sentences have to begin together. `rescore`: see GreedySearch. Where a
    segment requires phrases, there have to be several beams."""
    if rules.num_beams == 1:
        return GreedySearch(rules, rescore)
    beam_search = ConstrainedSearch if any(segment.required for segment in rules.segments) else BeamSearch
    return beam_search(rules, first_step_rows=first_step_rows or rules.num_beams)


def search(steps: Steps, num_rows: int, rules: GenerationConfig) -> list[list[Hypothesis]]:
    """The hypotheses of each of `num_rows` sentences that begin together, best first: one for greedy search, else as
    many as beams. The first step has one row per sentence."""
    return run_search(new_search(rules, first_step_rows=1), steps, num_rows)


def run_search(running: Search, steps: Steps, num_rows: int) -> list[list[Hypothesis]]:
    """Run an empty search to its end, with `num_rows` sentences that begin together."""
    running.add(range(num_rows))
    hypotheses: dict[int, list[Hypothesis]] = {}
    while running.num_sentences:
        ended, order = running.advance(steps.step(running.last_ids))
        hypotheses |= ended
        if order is not None and running.num_sentences:
            steps.select(order)
    return [hypotheses[sentence] for sentence in range(num_rows)]
