"""
Continuing prompts: the most likely token of each row, or one drawn from the model's distribution, until the row ends.

Knows: ids and logits. Does not know: text, keys and values. No row affects another; each leaves as soon as it has
ended, and another may take its place at any step.

Shapes: R rows, one per prompt · V vocabulary · T tokens allocated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jobs.outcome import Finish
from worker.engine.search.continuation_rules import ContinuationRules, OwnRules
from worker.engine.search.logit_rules import Floats, Ids, apply_rules, log_normalizer
from worker.engine.search.rows import RowOrder, compact_rows, with_capacity

# A prompt's index, and the tokens of its continuation so far -> whether it ends here.
EndsIn = Callable[[int, Ids], bool]
# A prompt's index -> the rules that it has of its own; None: none.
OwnRulesOf = Callable[[int], OwnRules | None]


@dataclass(frozen=True, slots=True)
class Continuation:
    """The generated end of one prompt."""

    ids: tuple[int, ...]  # without the prompt; the id that ended it included
    log_prob: float  # natural log, summed over ids, under the model itself; NaN where logits were not finite
    finish: Finish
    num_shared: int = 0  # tokens of the prompt that were computed for another prompt


class ContinuationSearch:
    """The running rows."""

    def __init__(
        self,
        rules: ContinuationRules,
        max_positions: int,
        ends_in: EndsIn | None = None,
        own_rules: OwnRulesOf = lambda _: None,
    ) -> None:
        """`max_positions`: of the model; the last token of a continuation is never read, so it needs none. `ends_in`:
        asked after each token."""
        self._own_rules = own_rules
        self._rules = rules
        self._max_positions = max_positions
        self._ends_in = ends_in
        self._eos_ids = np.asarray(rules.eos_ids, np.int64)
        self._prompts = np.empty(0, np.int64)  # (R,): the index of each row's prompt
        self._starts = np.empty(0, np.int64)  # (R,): tokens of the prompt
        self._lengths = np.empty(0, np.int64)  # (R,): tokens so far, the prompt included
        self._limits = np.empty(0, np.int64)  # (R,): tokens when a row ends
        self._log_probs = np.empty(0)  # (R,)
        self._tokens = np.empty((0, 1), np.int64)  # (R, T)
        self._numbers: dict[int, np.random.Generator] = {}  # by prompt

    @property
    def num_rows(self) -> int:
        """R: how many prompts run."""
        return len(self._prompts)

    @property
    def last_ids(self) -> Ids:
        """The id that the model reads next in each row (R,)."""
        last: Ids = self._tokens[np.arange(len(self._tokens)), self._lengths - 1]
        return last

    @property
    def running(self) -> list[int]:
        """The prompts of the rows (R,)."""
        return self._prompts.tolist()

    def tokens(self, row: int) -> Ids:
        """The prompt of a row followed by the tokens generated so far."""
        return self._tokens[row, : self._lengths[row]]

    def add(self, indices: Sequence[int], prompts: Sequence[Sequence[int]]) -> None:
        """Add prompts, in rows after the others. None is empty, or longer than the model's positions."""
        starts = np.array([len(prompt) for prompt in prompts], np.int64)
        self._tokens = with_capacity(self._tokens, int(starts.max()))
        new = np.zeros((len(prompts), self._tokens.shape[1]), np.int64)
        for row, prompt in enumerate(prompts):
            new[row, : len(prompt)] = prompt
        limits = np.full(len(prompts), self._max_positions + 1)
        own = [self._own_rules(index) for index in indices]
        most = [rules.max_new_tokens if rules else self._rules.max_new_tokens for rules in own]
        for row, most_new in enumerate(most):
            if most_new is not None:
                limits[row] = min(limits[row], starts[row] + most_new)
        self._tokens = np.concatenate((self._tokens, new))
        self._prompts = np.concatenate((self._prompts, np.asarray(indices, np.int64)))
        self._starts = np.concatenate((self._starts, starts))
        self._lengths = np.concatenate((self._lengths, starts))
        self._limits = np.concatenate((self._limits, limits))
        self._log_probs = np.concatenate((self._log_probs, np.zeros(len(prompts))))
        if self._rules.sampling is not None:
            for index, prompt, rules in zip(indices, prompts, own, strict=True):
                self._numbers[index] = self._rules.sampling.random_numbers(prompt, rules.seed if rules else None)

    def advance(self, logits: Floats, scales: Floats | None = None) -> tuple[dict[int, Continuation], RowOrder]:
        """Take the logits of every row (R, V), to be multiplied by `scales` (R,); they are changed. Returns the
        continuations that have ended, by prompt, and the order of the other rows."""
        rows = np.arange(len(logits))
        ids, gained = self._choose(logits, scales)
        self._log_probs += gained
        self._tokens = with_capacity(self._tokens, int(self._lengths.max()))
        self._tokens[rows, self._lengths] = ids
        self._lengths += 1
        is_eos = np.isin(ids, self._eos_ids)
        is_last = self._lengths == self._limits
        has_ended = is_eos | is_last | np.isnan(self._log_probs)
        stopped = np.zeros(len(rows), np.bool_)
        if self._ends_in is not None:
            for row in np.flatnonzero(~is_eos).tolist():
                stopped[row] = self._ends_in(
                    int(self._prompts[row]), self._tokens[row, self._starts[row] : self._lengths[row]]
                )
            has_ended |= stopped
        ended = {}
        for row in np.flatnonzero(has_ended).tolist():
            finish = Finish.EOS if is_eos[row] else Finish.STOP if stopped[row] else Finish.LENGTH
            ended[int(self._prompts[row])] = self._continuation(row, finish)
        if not ended:
            return ended, None
        stay = compact_rows(~has_ended)
        self._prompts, self._starts, self._lengths = self._prompts[stay], self._starts[stay], self._lengths[stay]
        self._limits, self._log_probs = self._limits[stay], self._log_probs[stay]
        self._tokens = self._tokens[stay]
        for index in ended:
            self._numbers.pop(index, None)
        return ended, stay

    def _choose(self, logits: Floats, scales: Floats | None) -> tuple[Ids, Floats]:
        """The next token of each row, and its log-probability under the model itself (R,)."""
        rules, rows = self._rules, np.arange(len(logits))
        own: Floats | None = None
        if rules.repetition_penalty != 1.0 or rules.renormalize_logits:
            # The rules change logits of allowed tokens too: keep the model's own.
            own = logits.copy() if scales is None else logits * scales[:, None]
        own_normalizer = None if own is None else log_normalizer(own)
        normalizer, scales = apply_rules(
            logits, scales, self._tokens, self._lengths, rules, steps=self._lengths - self._starts, to_log_probs=False
        )
        if rules.sampling is None:
            ids: Ids = logits.argmax(axis=1)
        else:
            numbers = np.array([self._numbers[index].random() for index in self._prompts.tolist()])
            ids = rules.sampling.draw(logits, scales, numbers)
        with np.errstate(invalid="ignore"):
            if own is not None and own_normalizer is not None:
                gained = own[rows, ids] - own_normalizer
            else:
                gained = logits[rows, ids] * (1 if scales is None else scales) - normalizer
        gained[~np.isfinite(normalizer)] = np.nan
        return ids, gained

    def _continuation(self, row: int, finish: Finish) -> Continuation:
        ids = self._tokens[row, self._starts[row] : self._lengths[row]]
        return Continuation(tuple(ids.tolist()), float(self._log_probs[row]), finish)
