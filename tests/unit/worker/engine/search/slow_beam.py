"""
The slow twin of `worker.engine.search.beam`: every candidate carries all of its tokens, all logits are sorted, and
arrays are gathered as often as that is easy to read.

Shapes: n sentences · k beams · R rows, n x k (or n at the first step) · V vocabulary · T tokens allocated.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.logit_rules import Floats, Ids, apply_rules
from worker.engine.search.rows import Flags, RowOrder, compact_rows, forced_ids, with_capacity

_IMPOSSIBLE = np.float32(-1e9)  # the score of a hypothesis that does not exist, as in transformers


@dataclass(slots=True)
class _Beams:
    """m hypotheses for each of n sentences: all running, all ended, or all candidates to become either."""

    scores: Floats  # (n, m): the hypotheses are ranked by these
    log_probs: Floats  # (n, m)
    tokens: Ids  # (n, m, T), the start token first; of an ended one, the `lengths` tokens after it
    lengths: Ids  # (n, m); 0 where there is no hypothesis
    truncated: Flags  # (n, m)
    parents: Ids  # (n, m): the beam that a candidate continues

    @classmethod
    def blank(cls, num_sentences: int, num_beams: int, start_id: int, room: int) -> Self:
        shape = num_sentences, num_beams
        return cls(
            scores=np.full(shape, _IMPOSSIBLE),
            log_probs=np.full(shape, _IMPOSSIBLE),
            tokens=np.full((*shape, room), start_id),
            lengths=np.zeros(shape, np.int64),
            truncated=np.zeros(shape, np.bool_),
            parents=np.zeros(shape, np.int64),
        )

    def best(self, scores: Floats, count: int) -> Self:
        """The `count` hypotheses of each sentence with the highest `scores`, best first, equal ones in order."""
        places = _top(scores, count)
        sentences = np.arange(len(places))[:, None]  # (n, 1)
        chosen = type(self)(*(array[sentences, places] for array in self._arrays()))
        chosen.scores = scores[sentences, places]
        return chosen

    def with_hypotheses(self, other: Self) -> Self:
        """The hypotheses of both, for the same sentences."""
        return self._joined(other, axis=1)

    def with_sentences(self, other: Self) -> Self:
        """The hypotheses of both, for the sentences of both."""
        return self._joined(other, axis=0)

    def select(self, sentences: Ids) -> Self:
        """The hypotheses of some sentences."""
        return type(self)(*(array[sentences] for array in self._arrays()))

    def _joined(self, other: Self, axis: int) -> Self:
        pairs = zip(self._arrays(), other._arrays(), strict=True)
        return type(self)(*(np.concatenate(pair, axis=axis) for pair in pairs))

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return self.scores, self.log_probs, self.tokens, self.lengths, self.truncated, self.parents


class SlowBeamSearch:
    """The running sentences. Each has k beams; sentences may have different lengths."""

    def __init__(self, rules: GenerationConfig, *, first_step_rows: int) -> None:
        self._rules = rules
        self._first_step_rows = first_step_rows
        self._sentences = np.empty(0, np.int64)  # (n,)
        self._lengths = np.empty(0, np.int64)  # (n,): tokens so far, the start token included
        self._running = _Beams.blank(0, rules.num_beams, rules.start_id, room=1)
        self._ended = _Beams.blank(0, rules.num_beams, rules.start_id, room=1)
        self._rows = np.empty((0, rules.num_beams), np.int64)  # (n, k): the row of each beam, within its sentence

    @property
    def num_sentences(self) -> int:
        """Sentences that have not ended."""
        return len(self._sentences)

    @property
    def last_ids(self) -> Ids:
        """The id that the decoder reads next in each row (R,)."""
        tokens = self._running.tokens
        last = np.take_along_axis(tokens, (self._lengths - 1)[:, None, None], axis=2)[:, :, 0]  # (n, k)
        ids = np.empty_like(last)
        np.put_along_axis(ids, self._rows, last, axis=1)
        return ids[:, : self._width].ravel()

    def add(self, sentences: Sequence[int]) -> None:
        """Add sentences, in rows after the others."""
        rules, count, k = self._rules, len(sentences), self._rules.num_beams
        room = self._running.tokens.shape[2]
        running = _Beams.blank(count, k, rules.start_id, room)
        running.scores[:, 0] = 0.0  # the beams are equal at first, so one gets the score 0 and the others do not count
        self._running = self._running.with_sentences(running)
        self._ended = self._ended.with_sentences(_Beams.blank(count, k, rules.start_id, room))
        self._sentences = np.concatenate((self._sentences, np.asarray(sentences, np.int64)))
        self._lengths = np.concatenate((self._lengths, np.ones(count, np.int64)))
        self._rows = np.concatenate((self._rows, np.tile(np.arange(k), (count, 1))))

    def advance(self, logits: Floats, scales: Floats | None = None) -> tuple[dict[int, list[Hypothesis]], RowOrder]:
        """Take the logits of every row (R, V), to be multiplied by `scales` (R,). Returns the hypotheses of sentences
        that have ended, and the order of the rows of the others."""
        rules, k, width = self._rules, self._rules.num_beams, self._width
        for beams in (self._running, self._ended):
            beams.tokens = with_capacity(beams.tokens, int(self._lengths.max()))
        candidates, broken = self._candidates(logits, scales)  # (n, 2k), (n,)
        steps = self._lengths  # (n,): tokens generated, the candidates' new one included
        last = steps == rules.max_new_tokens  # (n,)
        new = np.take_along_axis(candidates.tokens, steps[:, None, None], axis=2)[:, :, 0]  # (n, 2k)
        ends = (new == rules.eos_id) | last[:, None]

        # Running beams: the best k candidates that do not end. At most one candidate of each beam ends, so at least k
        # of the 2k go on.
        self._running = candidates.best(np.where(ends, candidates.scores + _IMPOSSIBLE, candidates.scores), k)

        # Ended hypotheses: only those among the k best candidates. The other k are there to keep k beams running.
        ends[:, k:] = False
        candidates.lengths = np.where(ends, steps[:, None], 0)
        penalty = np.asarray(steps[:, None] ** rules.length_penalty, np.float32)
        candidates.scores = np.where(ends, candidates.scores / penalty, _IMPOSSIBLE)
        both = self._ended.with_hypotheses(candidates)  # (n, 3k)
        self._ended = both.best(both.scores, k)
        self._lengths = steps + 1

        done = broken | last | ~self._may_improve(steps)  # (n,)
        if rules.early_stopping is True:
            done |= (self._ended.lengths > 0).all(axis=1)
        found = {
            int(self._sentences[index]): self._broken(index) if broken[index] else self._results(index)
            for index in np.flatnonzero(done).tolist()
        }
        return found, self._reorder(done, width)

    @property
    def _width(self) -> int:
        """The number of rows that each sentence has at the next step."""
        is_first = self._first_step_rows < self._rules.num_beams and len(self._lengths) and self._lengths[0] == 1
        return self._first_step_rows if is_first else self._rules.num_beams

    def _candidates(self, logits: Floats, scales: Floats | None) -> tuple[_Beams, Flags]:
        """The 2k best continuations (n, 2k), and which sentences have logits that are not finite (n,)."""
        rules, running, width = self._rules, self._running, self._width
        n, k = running.scores.shape
        in_rows = np.argsort(self._rows, axis=1)[:, :width]  # (n, width): the beam in each row
        sentences = np.arange(n)[:, None]
        tokens = running.tokens[sentences, in_rows].reshape(n * width, -1)
        lengths = np.repeat(self._lengths, width)
        normalizer, scales = apply_rules(
            logits, scales, tokens, lengths, rules, steps=lengths - 1, to_log_probs=True
        )  # (R,)
        before = running.scores[:, :width]  # (n, width)
        places = self._rows[:, :width] if width == k else np.zeros((n, width), np.int64)
        broken_rows = ~np.isfinite(normalizer).reshape(n, width)[sentences, places]
        broken: Flags = np.any(broken_rows & (before > _IMPOSSIBLE / 2), axis=1)

        vocab_size = logits.shape[1]
        some = min(2 * k, vocab_size)
        values, ids = top_k(logits, some)  # (R, some)
        with np.errstate(invalid="ignore"):
            if scales is not None:
                values *= scales[:, None]
            values -= normalizer[:, None]
        values = values.reshape(n, width, some)[sentences, places]  # by beam again
        ids = ids.reshape(n, width, some)[sentences, places]
        if width < k and vocab_size <= 4 * k + len(rules.suppressed_ids):
            # The vocabulary is so small that one beam has fewer than 2k candidates: the impossible ones of the other
            # beams fill the rest.
            values, ids, before, width = np.repeat(values, k, axis=1), np.repeat(ids, k, axis=1), running.scores, k
        scores = (values + before[:, :, None]).reshape(n, -1)  # (n, width * some)
        ids = ids.reshape(n, -1)
        parents = np.tile(np.repeat(np.arange(width), some), (n, 1))
        best = _top(scores, 2 * k)
        scores, ids, parents = scores[sentences, best], ids[sentences, best], parents[sentences, best]
        forced = forced_ids(rules, self._lengths - 1, self._sentences)
        if forced is not None:
            rows = np.flatnonzero(forced >= 0)
            scores[rows] = np.concatenate((running.scores[rows], np.full((len(rows), k), -np.inf, np.float32)), axis=1)
            ids[rows] = forced[rows, None]
            parents[rows] = np.tile(np.arange(k), 2)
        tokens = running.tokens[sentences, parents]  # (n, 2k, T)
        np.put_along_axis(tokens, self._lengths[:, None, None], ids[:, :, None], axis=2)
        truncated = self._truncated(logits, parents, ids, places, forced)
        return _Beams(scores, scores, tokens, np.zeros_like(ids), truncated, parents), broken

    def _truncated(self, logits: Floats, parents: Ids, ids: Ids, places: Ids, forced: Ids | None) -> Flags:
        """Whether each candidate (n, 2k) ends because of the token limit, and not with the model's end-of-sentence."""
        truncated = np.zeros(ids.shape, np.bool_)
        eos_id, width = self._rules.eos_id, self._width
        for index in np.flatnonzero(self._lengths == self._rules.max_new_tokens).tolist():
            chosen = ids[index]
            if forced is not None and forced[index] >= 0:
                rows = places[index, parents[index] % width]
                chosen = logits[index * width + rows].argmax(axis=1)
            truncated[index] = chosen != eos_id
        return truncated

    def _may_improve(self, steps: Ids) -> Flags:
        """Whether the best running beam of each sentence may still beat the worst ended hypothesis (n,).

        An estimate, as in transformers: the running beam's score is taken at its present length (or, with
        early_stopping = "never", at the greatest length).
        """
        rules = self._rules
        if rules.early_stopping == "never" and rules.length_penalty > 0:
            steps = np.full_like(steps, rules.max_new_tokens)
        best = self._running.scores[:, 0] / np.asarray(steps**rules.length_penalty, np.float32)
        has_all = (self._ended.lengths > 0).all(axis=1)
        worst = np.where(has_all, self._ended.scores.min(axis=1, initial=np.inf), _IMPOSSIBLE)
        return np.asarray(best > worst)

    def _reorder(self, done: Flags, width: int) -> RowOrder:
        """Drop the sentences that are done, and assign a row to every beam of the others."""
        k = self._rules.num_beams
        old = np.zeros_like(self._rows) if width < k else self._rows  # (n, k)
        parents = np.take_along_axis(old, self._running.parents, axis=1)  # (n, k): the old row of each beam's parent
        self._rows = _assign_rows(parents)
        stay = compact_rows(~done) if done.any() else np.arange(len(done))
        continued = np.empty_like(parents)
        np.put_along_axis(continued, self._rows, parents, axis=1)  # (n, k): the old row that each row continues
        order: Ids = (width * stay[:, None] + continued[stay]).ravel()
        if done.any():
            self._sentences, self._lengths, self._rows = (
                array[stay] for array in (self._sentences, self._lengths, self._rows)
            )
            self._running, self._ended = self._running.select(stay), self._ended.select(stay)
        elif width == k and (order == np.arange(len(order))).all():
            return None
        return order

    def _results(self, index: int) -> list[Hypothesis]:
        """The ended hypotheses of one sentence; fewer than k if its first tokens were forced."""
        ended = self._ended
        return [
            Hypothesis(
                ids=tuple(ended.tokens[index, beam, 1 : ended.lengths[index, beam] + 1].tolist()),
                log_prob=float(ended.log_probs[index, beam]),
                score=float(ended.scores[index, beam]),
                truncated=bool(ended.truncated[index, beam]),
            )
            for beam in range(ended.scores.shape[1])
            if ended.lengths[index, beam] and ended.log_probs[index, beam] > _IMPOSSIBLE / 2
        ]

    def _broken(self, index: int) -> list[Hypothesis]:
        ids = self._running.tokens[index, 0, 1 : self._lengths[index]]
        return [Hypothesis(tuple(ids.tolist()), math.nan, math.nan, truncated=False)]


def _assign_rows(parents: Ids) -> Ids:
    """A row for each beam (n, k): the first beam of a parent keeps the parent's row, the others take free rows.

    parents  0 0 2 0   ->   0 1 2 3
    """
    n, k = parents.shape
    places = np.full((n, k), -1)
    taken = np.zeros((n, k), np.bool_)
    sentences = np.arange(n)
    for beam in range(k):
        wanted = parents[:, beam]
        free = ~taken[sentences, wanted]
        places[free, beam] = wanted[free]
        taken[sentences[free], wanted[free]] = True
    for beam in range(k):
        unplaced = np.flatnonzero(places[:, beam] < 0)
        row = taken[unplaced].argmin(axis=1)  # the first free one
        places[unplaced, beam] = row
        taken[unplaced, row] = True
    return places


def top_k(scores: Floats, k: int) -> tuple[Floats, Ids]:
    """The k highest scores of each row and their ids, best first, equal scores in the order of their ids."""
    ids = _top(scores, k)
    return np.take_along_axis(scores, ids, axis=1), ids


def _top(scores: Floats, count: int) -> Ids:
    """The columns of the `count` highest scores of each row, best first; equal ones keep their order."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :count]
