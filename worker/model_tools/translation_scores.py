"""Translations that one model made, scored by it and by another: how far the other is from it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jobs.tasks.shared_options import Timing
from worker.engine.runtime.run_context import RunContext
from worker.engine.runtime.timing import Stopwatch
from worker.engine.search.logit_rules import Floats
from worker.engine.seq2seq.batches import IdPair, make_pair_batches
from worker.engine.seq2seq.protocol import Seq2SeqModel


@dataclass(frozen=True, slots=True)
class ScoredTranslation:
    """A sentence and its translation."""

    pair: IdPair
    num_given: int  # of the target's first ids, which are forced


def score_translations(model: Seq2SeqModel, translations: Sequence[ScoredTranslation]) -> list[Floats]:
    """The log-probability of each token of each translation that is not forced."""
    scorer, run = model.new_scorer(), RunContext(Stopwatch(Timing.OFF))
    pairs = [translation.pair for translation in translations]
    found: dict[int, Floats] = {}
    for batch in make_pair_batches(pairs):
        found.update(zip(batch, scorer.log_probs([pairs[index] for index in batch], run), strict=True))
    return [found[index][translation.num_given :] for index, translation in enumerate(translations)]


def can_score(model: Seq2SeqModel, translations: Sequence[ScoredTranslation]) -> list[ScoredTranslation]:
    """The translations all of whose ids are in the model's head."""
    scorer = model.new_scorer()
    return [translation for translation in translations if bool(np.all(scorer.has_ids(translation.pair.target)))]
