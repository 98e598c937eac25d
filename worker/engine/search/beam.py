"""
Beam search: keep the k most likely beginnings of each sentence, and the best hypotheses that have ended.

A beam stays in the row of the beam that it continues (its parent), so that the fewest keys and values move. Only where
several beams continue one parent do the others take rows whose beams were dropped.

A step is some eighty numpy calls on small arrays, whatever the number of sentences, and one pass over the logits.

Shapes: n sentences · k beams · w rows of a sentence, k (or fewer at the first step) · R rows, n x w · V vocabulary ·
T tokens allocated.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.search.beam_candidates import Continuations, best_continuations
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.logit_rules import Floats, Ids, apply_rules
from worker.engine.search.rows import Flags, RowOrder, assign_rows, compact_rows, forced_ids, with_capacity

IMPOSSIBLE = np.float32(-1e9)  # the score of a hypothesis that does not exist, as in transformers


class BeamSearch:
    """The running sentences. Each has k beams; sentences may have different lengths."""

    def __init__(self, rules: GenerationConfig, *, first_step_rows: int) -> None:
        k = rules.num_beams
        self._rules = rules
        self._first_step_rows = first_step_rows
        self._forced_first = rules.first_free_step + rules.longest_prefix  # tokens of which any may be forced
        self._sentences = np.empty(0, np.int64)  # (n,)
        self._lengths = np.empty(0, np.int64)  # (n,): tokens so far, the start token included
        self._rows = np.empty((0, k), np.int64)  # (n, k): the row of each beam within its sentence, the best beam first
        # By rows, not by beams:
        self._scores = np.empty((0, k), np.float32)  # (n, k)
        self._last = np.empty((0, k), np.int64)  # (n, k): the last token
        self._tokens = np.empty((0, k, 1), np.int64)  # (n, k, T): the start token first
        self._ended = EndedHypotheses(k)
        self._penalties = np.empty(0, np.float32)  # by number of tokens: the divisor of a score

    @property
    def num_sentences(self) -> int:
        """Sentences that have not ended."""
        return len(self._sentences)

    @property
    def last_ids(self) -> Ids:
        """The id that the decoder reads next in each row (R,)."""
        return self._last[:, : self._width].ravel()

    def add(self, sentences: Sequence[int]) -> None:
        """Add sentences, in rows after the others."""
        rules, count, k = self._rules, len(sentences), self._rules.num_beams
        scores = np.full((count, k), IMPOSSIBLE)
        scores[:, 0] = 0.0  # the beams are equal at first, so one gets the score 0 and the others do not count
        start = np.full((count, k, self._tokens.shape[2]), rules.start_id)
        self._sentences = np.concatenate((self._sentences, np.asarray(sentences, np.int64)))
        self._lengths = np.concatenate((self._lengths, np.ones(count, np.int64)))
        self._rows = np.concatenate((self._rows, np.tile(np.arange(k), (count, 1))))
        self._scores = np.concatenate((self._scores, scores))
        self._last = np.concatenate((self._last, start[:, :, 0]))
        self._tokens = np.concatenate((self._tokens, start))
        self._ended.extend(count)

    def advance(self, logits: Floats, scales: Floats | None = None) -> tuple[dict[int, list[Hypothesis]], RowOrder]:
        """Take the logits of every row (R, V), to be multiplied by `scales` (R,). Returns the hypotheses of sentences
        that have ended, and the order of the rows of the others."""
        rules, k, width = self._rules, self._rules.num_beams, self._width
        n, steps = len(self._lengths), self._lengths  # (n,): tokens generated, the candidates' new one included
        longest = int(steps.max())
        self._tokens = with_capacity(self._tokens, longest)
        candidates, broken = self._candidates(logits, scales, longest)  # (n, 2k), (n,)
        ends = candidates.ids == rules.eos_id
        last = steps == rules.max_new_tokens if longest >= rules.max_new_tokens else None  # (n,)
        if last is not None:
            ends |= last[:, None]
        penalties = self._penalty(steps, longest)
        if ends[:, :k].any():
            # Only hypotheses among the k best candidates end. The other k candidates are there to keep k beams running.
            truncated = np.zeros((n, k), np.bool_)
            if last is not None:
                truncated = self._truncated(logits, candidates, np.flatnonzero(last))
            self._add_ended(candidates, ends[:, :k], penalties, truncated)

        scores, parents, ids = self._running(candidates, ends)
        done = ~self._may_improve(scores[:, 0], penalties, longest)  # (n,)
        if rules.early_stopping is True:
            done |= self._ended.are_full
        if last is not None:
            done |= last
        if broken is not None:
            done |= broken
        continued = self._continue(scores, parents, ids)
        ended = {
            int(self._sentences[index]): self._broken(index)
            if broken is not None and broken[index]
            else self._ended.of(index)
            for index in np.flatnonzero(done).tolist()
        }
        return ended, self._reorder(continued, done, width)

    @property
    def _width(self) -> int:
        """The number of rows that each sentence has at the next step."""
        is_first = self._first_step_rows < self._rules.num_beams and len(self._lengths) and self._lengths[0] == 1
        return self._first_step_rows if is_first else self._rules.num_beams

    def _candidates(self, logits: Floats, scales: Floats | None, longest: int) -> tuple[Continuations, Flags | None]:
        """The 2k best continuations (n, 2k), and which sentences have logits that are not finite (n,), None: none."""
        rules, k, width = self._rules, self._rules.num_beams, self._width
        n = len(self._lengths)
        lengths = np.repeat(self._lengths, width)
        tokens = self._tokens[:, :width].reshape(n * width, -1)
        normalizer, scales = apply_rules(
            logits, scales, tokens, lengths, rules, steps=lengths - 1, to_log_probs=True
        )  # (R,)
        before, order = self._scores[:, :width], self._rows[:, :width]  # (n, width)
        finite = np.isfinite(normalizer)
        broken: Flags | None = None
        if not finite.all():
            broken = np.any(~finite.reshape(n, width) & (before > IMPOSSIBLE / 2), axis=1)
        if width < k and logits.shape[1] <= 4 * k + len(rules.suppressed_ids):
            # The vocabulary is so small that one beam has fewer than 2k candidates: the impossible ones of the other
            # beams fill the rest.
            logits, normalizer = np.repeat(logits, k, axis=0), np.repeat(normalizer, k)
            scales = None if scales is None else np.repeat(scales, k)
            before, order = self._scores, self._rows
        candidates = self._best(logits, scales, normalizer, before, order)
        if int(self._lengths.min()) <= self._forced_first or (
            rules.forced_eos_id is not None and longest >= rules.max_new_tokens
        ):
            self._force(candidates)
        if width < k:
            candidates.rows[:] = 0  # all beams are alike
        return candidates, broken

    def _best(
        self, logits: Floats, scales: Floats | None, normalizer: Floats, before: Floats, order: Ids
    ) -> Continuations:
        """The continuations (n, 2k) from which beams are chosen; the arguments are those of `best_continuations`."""
        return best_continuations(logits, scales, normalizer, before, order, 2 * self._rules.num_beams)

    def _running(self, candidates: Continuations, ends: Flags) -> tuple[Floats, Ids, Ids]:
        """The beams that go on: the best k candidates that do not end, their scores, parents and ids (n, k). At most
        one candidate of each beam ends, so at least k of the 2k go on."""
        k = self._rules.num_beams
        scores, parents, ids = candidates.scores, candidates.rows, candidates.ids
        if not ends.any():
            return scores[:, :k], parents[:, :k], ids[:, :k]
        scores = np.where(ends, scores + IMPOSSIBLE, scores)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        best += 2 * k * np.arange(len(scores))[:, None]
        return scores.reshape(-1)[best], parents.reshape(-1)[best], ids.reshape(-1)[best]

    def _force(self, candidates: Continuations) -> None:
        """Let the beams of sentences whose next id is forced continue with it, at no cost."""
        forced = forced_ids(self._rules, self._lengths - 1, self._sentences)
        if forced is None:
            return
        sentences = np.flatnonzero(forced >= 0)
        order = self._rows[sentences]
        scores = np.take_along_axis(self._scores[sentences], order, axis=1)
        candidates.scores[sentences] = np.concatenate((scores, np.full_like(scores, -np.inf)), axis=1)
        candidates.rows[sentences] = np.tile(order, 2)
        candidates.ids[sentences] = forced[sentences, None]

    def _truncated(self, logits: Floats, candidates: Continuations, last: Ids) -> Flags:
        """Whether each of the k best candidates (n, k) ends because of the token limit, and not with the model's
        end-of-sentence. `last`: the sentences that have reached the limit."""
        k, width = self._rules.num_beams, self._width
        truncated = np.zeros((len(self._lengths), k), np.bool_)
        truncated[last] = candidates.ids[last, :k] != self._rules.eos_id
        forced = forced_ids(self._rules, self._lengths[last] - 1, self._sentences[last])
        if forced is not None:
            last = last[forced >= 0]
            rows = width * last[:, None] + candidates.rows[last, :k]
            truncated[last] = logits[rows].argmax(axis=2) != self._rules.eos_id
        return truncated

    def _add_ended(self, candidates: Continuations, ends: Flags, penalties: Floats, truncated: Flags) -> None:
        """Keep the candidates of `ends` (n, k) that are among the best hypotheses."""
        k = self._rules.num_beams
        some = np.flatnonzero(ends.any(axis=1))
        lengths, log_probs = self._lengths[some], candidates.scores[some, :k]
        tokens = self._tokens[some[:, None], candidates.rows[some, :k]]  # (m, k, T)
        tokens[np.arange(len(some)), :, lengths] = candidates.ids[some, :k]
        scores = log_probs / penalties[some, None]
        self._ended.add(some, ends[some], scores, log_probs, lengths, truncated[some], tokens)

    def _penalty(self, steps: Ids, longest: int) -> Floats:
        """The length penalty (n,): the divisor of the score of a hypothesis of `steps` (n,) tokens."""
        if longest >= len(self._penalties):
            with np.errstate(over="ignore"):
                lengths = np.arange(1, 2 * longest + 2)
                self._penalties = np.asarray(lengths**self._rules.length_penalty, np.float32)
        return self._penalties[steps - 1]

    def _may_improve(self, best: Floats, penalties: Floats, longest: int) -> Flags:
        """Whether the best running beam of each sentence may still beat the worst ended hypothesis (n,).

        An estimate, as in transformers: the running beam's score is taken at its present length (or, with
        early_stopping = "never", at the greatest length).
        """
        rules = self._rules
        if rules.early_stopping == "never" and rules.length_penalty > 0:
            penalties = np.asarray(np.full(1, rules.max_new_tokens) ** rules.length_penalty, np.float32)
        return np.asarray(best / penalties > self._to_beat)

    @property
    def _to_beat(self) -> Floats:
        """The score that a running beam has to beat, for its sentence to go on (n,)."""
        return self._ended.worst

    def _continue(self, scores: Floats, parents: Ids, ids: Ids) -> Ids:
        """Make the k best (n, k) the running beams. Returns the old row that each row continues (n, k)."""
        n, k = parents.shape
        base = k * np.arange(n)[:, None]
        self._rows = assign_rows(parents)
        flat_rows = base + self._rows
        continued = np.empty((n, k), np.int64)
        self._scores, self._last = np.empty((n, k), np.float32), np.empty((n, k), np.int64)
        for array, values in ((continued, parents), (self._scores, scores), (self._last, ids)):
            array.reshape(-1)[flat_rows] = values
        tokens = self._tokens.reshape(n * k, -1)
        old = base + continued
        moved = np.flatnonzero(continued != np.arange(k))
        tokens[moved] = tokens[old.reshape(-1)[moved]]
        self._tokens[np.arange(n), :, self._lengths] = self._last
        self._lengths = self._lengths + 1
        return continued

    def _reorder(self, continued: Ids, done: Flags, width: int) -> RowOrder:
        """Drop the sentences that are done. Returns the old row of each row that stays."""
        n, k = continued.shape
        if not done.any():
            if width == k and (continued == np.arange(k)).all():
                return None
            order: Ids = (continued + width * np.arange(n)[:, None]).ravel()
            return order
        stay = compact_rows(~done)
        order = (continued[stay] + width * stay[:, None]).ravel()
        self._sentences, self._lengths, self._rows = self._sentences[stay], self._lengths[stay], self._rows[stay]
        self._scores, self._last, self._tokens = self._scores[stay], self._last[stay], self._tokens[stay]
        self._ended.keep(stay)
        return order

    def _broken(self, index: int) -> list[Hypothesis]:
        ids = self._tokens[index, self._rows[index, 0], 1 : self._lengths[index]]
        return [Hypothesis(tuple(ids.tolist()), math.nan, math.nan, truncated=False)]


class EndedHypotheses:
    """Up to k ended hypotheses for each sentence, best first; empty entries come last."""

    def __init__(self, num_beams: int) -> None:
        self._num_beams = num_beams
        self._scores: Floats = np.empty((0, num_beams), np.float32)
        self._log_probs: Floats = np.empty((0, num_beams), np.float32)
        self._lengths: Ids = np.empty((0, num_beams), np.int64)  # tokens; 0 where there is no hypothesis
        self._truncated: Flags = np.empty((0, num_beams), np.bool_)
        self._tokens: Ids = np.empty((0, num_beams, 1), np.int64)  # (n, k, T): the start token first

    @property
    def are_full(self) -> Flags:
        """Whether a sentence has k hypotheses (n,)."""
        full: Flags = self._lengths[:, -1] > 0
        return full

    @property
    def best(self) -> Floats:
        """The highest score of each sentence (n,); IMPOSSIBLE where it has no hypothesis."""
        return self._scores[:, 0]

    @property
    def worst(self) -> Floats:
        """The lowest score of each sentence (n,); IMPOSSIBLE where it has fewer than k hypotheses."""
        return self._scores[:, -1]

    def extend(self, count: int) -> None:
        """Add sentences, after the others."""
        shape = count, self._num_beams
        impossible = np.full(shape, IMPOSSIBLE)
        self._scores = np.concatenate((self._scores, impossible))
        self._log_probs = np.concatenate((self._log_probs, impossible))
        self._lengths = np.concatenate((self._lengths, np.zeros(shape, np.int64)))
        self._truncated = np.concatenate((self._truncated, np.zeros(shape, np.bool_)))
        self._tokens = np.concatenate((self._tokens, np.zeros((*shape, self._tokens.shape[2]), np.int64)))

    def add(
        self,
        sentences: Ids,
        ends: Flags,
        scores: Floats,
        log_probs: Floats,
        lengths: Ids,
        truncated: Flags,
        tokens: Ids,
    ) -> None:
        """Add those candidates of these sentences (m,) that end: (m, c) each, best first, `lengths` (m,) of all of a
        sentence, `tokens` (m, c, T)."""
        k = self._num_beams
        self._tokens = with_capacity(self._tokens, tokens.shape[2] - 1)
        room = tokens.shape[2]
        scores = np.concatenate((self._scores[sentences], np.where(ends, scores, IMPOSSIBLE)), axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]  # of equal scores the earlier ones
        lengths = np.where(ends, lengths[:, None], 0)

        def merge(known: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
            both = np.concatenate((known[sentences], new), axis=1)
            return both[np.arange(len(both))[:, None], best]

        self._scores[sentences] = scores[np.arange(len(scores))[:, None], best]
        self._log_probs[sentences] = merge(self._log_probs, log_probs)
        self._lengths[sentences] = merge(self._lengths, lengths)
        self._truncated[sentences] = merge(self._truncated, truncated)
        self._tokens[sentences, :, :room] = merge(self._tokens[:, :, :room], tokens)

    def keep(self, sentences: Ids) -> None:
        """Keep these sentences, in this order."""
        self._scores, self._log_probs = self._scores[sentences], self._log_probs[sentences]
        self._lengths, self._truncated = self._lengths[sentences], self._truncated[sentences]
        self._tokens = self._tokens[sentences]

    def of(self, sentence: int) -> list[Hypothesis]:
        """The hypotheses of one sentence, best first; fewer than k if its first tokens were forced."""
        return [
            Hypothesis(tuple(tokens[1 : length + 1]), log_prob, score, truncated)
            for score, log_prob, length, truncated, tokens in zip(
                self._scores[sentence].tolist(),
                self._log_probs[sentence].tolist(),
                self._lengths[sentence].tolist(),
                self._truncated[sentence].tolist(),
                self._tokens[sentence].tolist(),
                strict=True,
            )
            if length and log_prob > IMPOSSIBLE / 2
        ]
