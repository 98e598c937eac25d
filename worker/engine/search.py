"""
Greedy search and beam search, token for token as transformers' `generate`, as functions of a decoding step.

Knows: scores and ids. Does not know: sessions, tokenizers, caches. A sentence leaves the batch as soon as its result
is known, and no result depends on which other sentences are in the batch.

Shapes: B sentences · n sentences still running · k beams · R rows of the step (n, or n x k) · V vocabulary ·
T generated tokens.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from worker.engine.generation import Generation
from worker.engine.logits import Floats, Ids, apply_rules, top_k

Flags = NDArray[np.bool_]

_IMPOSSIBLE = np.float32(-1e9)  # the score of what is not there, as in transformers


class Steps(Protocol):
    """What a search needs of a decoder."""

    def step(self, last_ids: Ids) -> Floats:
        """Append one id to each row (R,) and return the logits of the next (R, V), the caller's to change."""

    def select(self, rows: Ids) -> None:
        """Let row i continue what was row rows[i]; rows that are not named are gone."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One way to go on from the start token."""

    ids: tuple[int, ...]  # no start token; end-of-sentence included where it was generated
    log_prob: float  # natural log, summed over ids, a forced id counting 0; NaN where logits were not finite
    score: float  # log_prob / len(ids) ** length_penalty
    truncated: bool  # the length limit came before the model's own end of sentence


def search(steps: Steps, num_rows: int, rules: Generation) -> list[list[Hypothesis]]:
    """The hypotheses of each row, best first: one with a single beam, else as many as there are beams."""
    if rules.num_beams == 1:
        return [[hypothesis] for hypothesis in greedy_search(steps, num_rows, rules)]
    return beam_search(steps, num_rows, rules)


def greedy_search(steps: Steps, num_rows: int, rules: Generation) -> list[Hypothesis]:
    """Follow the most likely token of each row until the row ends."""
    found: dict[int, Hypothesis] = {}
    sentences = np.arange(num_rows)  # (n,): which one each row is
    log_probs = np.zeros(num_rows)  # (n,)
    tokens = np.full((num_rows, rules.max_new_tokens + 1), rules.start_id)  # (n, 1 + T)
    for step in range(rules.max_new_tokens):
        logits = steps.step(tokens[:, step])  # (n, V)
        normalizer = apply_rules(logits, tokens[:, : step + 1], rules, to_log_probs=False)  # (n,)
        ids = wanted = logits.argmax(axis=1)  # (n,)
        forced_id = _forced_id(rules, step)
        if forced_id is None:
            with np.errstate(invalid="ignore"):
                log_probs += logits[np.arange(len(ids)), ids] - normalizer
        else:
            ids = np.full(len(ids), forced_id)
        log_probs[~np.isfinite(normalizer)] = np.nan
        tokens[:, step + 1] = ids
        last = step + 1 == rules.max_new_tokens
        ended = (ids == rules.eos_id) | np.isnan(log_probs) | last
        for row in np.flatnonzero(ended):
            log_prob = float(log_probs[row])
            found[int(sentences[row])] = Hypothesis(
                ids=tuple(tokens[row, 1 : step + 2].tolist()),
                log_prob=log_prob,
                score=log_prob / (step + 1) ** rules.length_penalty,
                truncated=last and bool(wanted[row] != rules.eos_id) and not math.isnan(log_prob),
            )
        if len(found) == num_rows:
            break
        if ended.any():
            rows = _close_ranks(~ended)
            steps.select(rows)
            sentences, log_probs, tokens = sentences[rows], log_probs[rows], tokens[rows]
    return [found[sentence] for sentence in range(num_rows)]


@dataclass(slots=True)
class _Beams:
    """m hypotheses of each of n sentences: those that go on, those that have ended, or candidates for both."""

    scores: Floats  # (n, m): what they are ranked by
    log_probs: Floats  # (n, m)
    tokens: Ids  # (n, m, 1 + T), the start token first; of ended ones, `lengths` tokens after it count
    lengths: Ids  # (n, m); 0 where there is no hypothesis
    truncated: Flags  # (n, m)
    parents: Ids  # (n, m): the beam that a candidate continues

    @classmethod
    def blank(cls, num_rows: int, num_beams: int, start_id: int) -> Self:
        shape = num_rows, num_beams
        return cls(
            scores=np.full(shape, _IMPOSSIBLE),
            log_probs=np.full(shape, _IMPOSSIBLE),
            tokens=np.full((*shape, 1), start_id),
            lengths=np.zeros(shape, np.int64),
            truncated=np.zeros(shape, np.bool_),
            parents=np.zeros(shape, np.int64),
        )

    def best(self, scores: Floats, count: int) -> Self:
        """Of each sentence the `count` hypotheses with the highest `scores`, best first, equal ones in order."""
        places = _highest(scores, count)
        sentences = np.arange(len(places))[:, None]  # (n, 1)
        chosen = type(self)(*(array[sentences, places] for array in self._arrays()))
        chosen.scores = scores[sentences, places]
        return chosen

    def beside(self, other: Self) -> Self:
        """The hypotheses of both, sentence by sentence."""
        pairs = zip(self._arrays(), other._arrays(), strict=True)
        return type(self)(*(np.concatenate(pair, axis=1) for pair in pairs))

    def of(self, rows: Ids) -> Self:
        """Those of some sentences."""
        return type(self)(*(array[rows] for array in self._arrays()))

    def grow(self) -> None:
        """Make room for one more token."""
        self.tokens = np.concatenate((self.tokens, np.zeros_like(self.tokens[:, :, :1])), axis=2)

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return self.scores, self.log_probs, self.tokens, self.lengths, self.truncated, self.parents


def beam_search(steps: Steps, num_rows: int, rules: Generation) -> list[list[Hypothesis]]:
    """Keep the `num_beams` most likely beginnings of each sentence; return the best that ended, best first."""
    k = rules.num_beams
    found: dict[int, list[Hypothesis]] = {}
    sentences = np.arange(num_rows)  # (n,): which one each group of k beams is
    running, ended = (_Beams.blank(num_rows, k, rules.start_id) for _ in range(2))
    running.scores[:, 0] = 0.0  # all beams are equal at first: only one of them counts
    for step in range(rules.max_new_tokens):
        # The beams of a sentence are one row at the first step, and k rows from then on.
        width = k if step else 1
        logits = steps.step(running.tokens[:, :width, -1].ravel())  # (n * width, V)
        candidates, broken = _candidates(logits.reshape(len(sentences), width, -1), running, rules)  # (n, 2k), (n,)
        last = step + 1 == rules.max_new_tokens
        ends = (candidates.tokens[:, :, -1] == rules.eos_id) | last  # (n, 2k)

        # What goes on: the best k that do not end. A beam ends in one way only, so k of 2k candidates do go on.
        running = candidates.best(np.where(ends, candidates.scores + _IMPOSSIBLE, candidates.scores), k)

        # What has ended: only an end among the k best counts; the others were looked at to have k that go on.
        ends[:, k:] = False
        candidates.lengths = np.where(ends, step + 1, 0)
        candidates.scores = np.where(
            ends, candidates.scores / np.float32((step + 1) ** rules.length_penalty), _IMPOSSIBLE
        )
        ended.grow()
        both = ended.beside(candidates)  # (n, 3k)
        ended = both.best(both.scores, k)

        done = broken | last | ~_may_improve(running, ended, step + 1, rules)  # (n,)
        if rules.early_stopping is True:
            done |= (ended.lengths > 0).all(axis=1)
        for row in np.flatnonzero(done).tolist():
            found[int(sentences[row])] = _broken(running, row) if broken[row] else _results(ended, row)
        if len(found) == num_rows:
            break
        rows = _close_ranks(~done)
        sentences, running, ended = sentences[rows], running.of(rows), ended.of(rows)
        parents = running.parents if step else 0
        steps.select((width * rows[:, None] + np.broadcast_to(parents, (len(rows), k))).ravel())
    return [found[sentence] for sentence in range(num_rows)]


def _candidates(logits: Floats, running: _Beams, rules: Generation) -> tuple[_Beams, Flags]:
    """The 2k best ways to go on (n, 2k), and which sentences have logits that are not finite (n,)."""
    n, k = running.scores.shape
    width, vocab_size = logits.shape[1:]  # 1 at the first step, then k
    if width < k and vocab_size <= 4 * k + len(rules.suppressed_ids):
        # A vocabulary too small for 2k candidates from one beam: the others, impossible as they are, fill up.
        logits, width = np.repeat(logits, k, axis=1), k
    step = running.tokens.shape[2] - 1
    forced_id = _forced_id(rules, step)
    flat = logits.reshape(n * width, vocab_size)  # (R, V)
    normalizer = apply_rules(flat, running.tokens[:, :width].reshape(n * width, -1), rules, to_log_probs=True)  # (R,)
    before = running.scores[:, :width]  # (n, width)
    broken: Flags = np.any(~np.isfinite(normalizer).reshape(n, width) & (before > _IMPOSSIBLE / 2), axis=1)
    if forced_id is None:
        some = min(2 * k, vocab_size)
        values, ids = top_k(flat, some)  # (R, some)
        with np.errstate(invalid="ignore"):
            values -= normalizer[:, None]
        scores = (values.reshape(n, width, some) + before[:, :, None]).reshape(n, -1)  # (n, width * some)
        ids = ids.reshape(n, -1)
        parents = np.tile(np.repeat(np.arange(width), some), (n, 1))
    else:
        scores = np.concatenate((running.scores, np.full((n, k), -np.inf, np.float32)), axis=1)  # (n, 2k)
        ids = np.full((n, 2 * k), forced_id)
        parents = np.tile(np.arange(k), (n, 2))
    best, row = _highest(scores, 2 * k), np.arange(n)[:, None]
    scores, ids, parents = scores[row, best], ids[row, best], parents[row, best]
    truncated = np.zeros((n, 2 * k), np.bool_)
    if step + 1 == rules.max_new_tokens:  # is it the model that ends here, or the limit?
        wanted = np.broadcast_to(flat.argmax(axis=1).reshape(n, width), (n, k))[row, parents]
        truncated = (ids if forced_id is None else wanted) != rules.eos_id
    tokens = np.concatenate((running.tokens[row, parents], ids[:, :, None]), axis=2)  # (n, 2k, 1 + T)
    return _Beams(scores, scores, tokens, np.zeros_like(ids), truncated, parents), broken


def _may_improve(running: _Beams, ended: _Beams, length: int, rules: Generation) -> Flags:
    """Whether the best running beam of each sentence could still beat the worst that ended (n,).

    It is a guess, the same as in transformers: that the score of the running beam stays what it is at this length
    (or, with early_stopping = "never", at the greatest length).
    """
    if rules.early_stopping == "never" and rules.length_penalty > 0:
        length = rules.max_new_tokens
    best = running.scores[:, 0] / np.float32(length**rules.length_penalty)
    worst = np.where((ended.lengths > 0).all(axis=1), ended.scores.min(axis=1), _IMPOSSIBLE)
    return np.asarray(best > worst)


def _results(ended: _Beams, row: int) -> list[Hypothesis]:
    """The hypotheses of one sentence. Fewer than k different ones exist where the first tokens are forced."""
    return [
        Hypothesis(
            ids=tuple(ended.tokens[row, beam, 1 : ended.lengths[row, beam] + 1].tolist()),
            log_prob=float(ended.log_probs[row, beam]),
            score=float(ended.scores[row, beam]),
            truncated=bool(ended.truncated[row, beam]),
        )
        for beam in range(ended.scores.shape[1])
        if ended.lengths[row, beam] and ended.log_probs[row, beam] > _IMPOSSIBLE / 2
    ]


def _broken(running: _Beams, row: int) -> list[Hypothesis]:
    return [Hypothesis(tuple(running.tokens[row, 0, 1:].tolist()), math.nan, math.nan, truncated=False)]


def _highest(scores: Floats, count: int) -> Ids:
    """Where the `count` highest of each row stand, best first, equal ones in order."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :count]


def _forced_id(rules: Generation, step: int) -> int | None:
    """The only token that may come at this step, where there is one."""
    if step + 1 == rules.max_new_tokens and rules.forced_eos_id is not None:
        return rules.forced_eos_id
    return rules.forced_bos_id if step == 0 else None


def _close_ranks(stays: Flags) -> Ids:
    """The order of the rows that stay, moving as few as can be: the last ones fill the gaps.

    stays  1 0 1 0 1 1   ->   0 5 2 4
    """
    count = int(stays.sum())
    rows = np.arange(count)
    gaps = np.flatnonzero(~stays[:count])
    rows[gaps] = (np.flatnonzero(stays[count:]) + count)[::-1]
    return rows
