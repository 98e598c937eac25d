"""
Greedy search: follow the most likely token of each row, or one drawn from the model's distribution, until the row ends.

Shapes: R rows, one per sentence · V vocabulary · T tokens allocated.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.logit_rules import Floats, Ids, apply_rules, log_normalizer
from worker.engine.search.rows import RowOrder, compact_rows, forced_ids, with_capacity

# Approximate logits (R, V), scales and normalizers (R,) -> best ids, their exact logits, better normalizers (R,) each.
Rescore = Callable[[Floats, Floats, Floats], tuple[Ids, Floats, Floats]]


class GreedySearch:
    """The running rows, one per sentence; rows may have different lengths."""

    def __init__(self, rules: GenerationConfig, rescore: Rescore | None = None) -> None:
        """`rescore`: called for logits that come with scales, which are approximate; finds the exact best ids."""
        self._rules = rules
        self._rescore = rescore
        self._sentences = np.empty(0, np.int64)  # (R,): the sentence of each row
        self._lengths = np.empty(0, np.int64)  # (R,): tokens so far, the start token included
        self._log_probs = np.empty(0)  # (R,)
        self._tokens = np.empty((0, 1), np.int64)  # (R, T)
        self._numbers: dict[int, np.random.Generator] = {}  # of sentences that are sampled

    @property
    def num_sentences(self) -> int:
        """Sentences that have not ended."""
        return len(self._sentences)

    @property
    def last_ids(self) -> Ids:
        """The id that the decoder reads next in each row (R,)."""
        last: Ids = self._tokens[np.arange(len(self._tokens)), self._lengths - 1]
        return last

    def add(self, sentences: Sequence[int]) -> None:
        """Add sentences, in rows after the others."""
        new = np.full((len(sentences), self._tokens.shape[1]), self._rules.start_id)
        self._tokens = np.concatenate((self._tokens, new))
        self._sentences = np.concatenate((self._sentences, np.asarray(sentences, np.int64)))
        self._lengths = np.concatenate((self._lengths, np.ones(len(sentences), np.int64)))
        self._log_probs = np.concatenate((self._log_probs, np.zeros(len(sentences))))
        if (sampling := self._rules.sampling) is not None:
            for sentence in sentences:
                self._numbers[sentence] = sampling.random_numbers(self._rules.segments[sentence].stream)

    def advance(self, logits: Floats, scales: Floats | None = None) -> tuple[dict[int, list[Hypothesis]], RowOrder]:
        """Take the logits of every row (R, V), to be multiplied by `scales` (R,). Returns the hypotheses of sentences
        that have ended, and the order of the other rows."""
        rules, rows = self._rules, np.arange(len(logits))
        own: Floats | None = None
        if rules.sampling is not None and (rules.repetition_penalty != 1.0 or rules.renormalize_logits):
            own = logits.copy() if scales is None else logits * scales[:, None]  # the model's, without the rules
        own_normalizer = None if own is None else log_normalizer(own)
        normalizer, scales = apply_rules(
            logits, scales, self._tokens, self._lengths, rules, steps=self._lengths - 1, to_log_probs=False
        )  # (R,)
        if rules.sampling is not None:
            numbers = np.array([self._numbers[sentence].random() for sentence in self._sentences.tolist()])
            ids = rules.sampling.draw(logits, scales, numbers)
            best = logits[rows, ids] * (1 if scales is None else scales)
            if own is not None and own_normalizer is not None:
                best, normalizer = own[rows, ids], np.where(np.isfinite(normalizer), own_normalizer, normalizer)
        elif self._rescore is not None and scales is not None:
            ids, best, normalizer = self._rescore(logits, scales, normalizer)
        else:
            ids = logits.argmax(axis=1)  # (R,)
            best = logits[rows, ids] * (1 if scales is None else scales)
        wanted = ids
        forced = forced_ids(rules, self._lengths - 1, self._sentences)
        with np.errstate(invalid="ignore"):
            gained = best - normalizer
        if forced is not None:
            ids, gained = np.where(forced < 0, ids, forced), np.where(forced < 0, gained, 0)
        self._log_probs += gained
        self._log_probs[~np.isfinite(normalizer)] = np.nan
        self._tokens = with_capacity(self._tokens, int(self._lengths.max()) + 1)
        self._tokens[rows, self._lengths] = ids
        last = self._lengths == rules.max_new_tokens
        self._lengths += 1
        has_ended = (ids == rules.eos_id) | np.isnan(self._log_probs) | last
        ended = {
            int(self._sentences[row]): [self._hypothesis(row, bool(last[row] and wanted[row] != rules.eos_id))]
            for row in np.flatnonzero(has_ended).tolist()
        }
        if not ended:
            return ended, None
        for sentence in ended:
            self._numbers.pop(sentence, None)
        stay = compact_rows(~has_ended)
        self._sentences, self._lengths = self._sentences[stay], self._lengths[stay]
        self._log_probs, self._tokens = self._log_probs[stay], self._tokens[stay]
        return ended, stay

    def _hypothesis(self, row: int, truncated: bool) -> Hypothesis:
        log_prob, length = float(self._log_probs[row]), int(self._lengths[row]) - 1
        return Hypothesis(
            ids=tuple(self._tokens[row, 1 : length + 1].tolist()),
            log_prob=log_prob,
            score=log_prob / length**self._rules.length_penalty,
            truncated=truncated and not math.isnan(log_prob),
        )
