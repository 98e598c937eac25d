"""
Beam search for translations that have to hold phrases: lexically constrained decoding with dynamic beam allocation
(Post and Vilar 2018, NAACL N18-1119), vectorized (Hu et al. 2019, NAACL N19-1090).

    candidates    the best continuations of each beam, and the ids that begin or continue a phrase that it lacks
    banks         by the number of ids of phrases that a candidate holds
    beams         the best of each bank, the fullest bank first, then the second of each, and so on

A sentence ends only with a beam that holds all its phrases. One that requires nothing has a single bank, and the
hypotheses of `BeamSearch`.

Shapes: n sentences · k beams · w rows of a sentence at this step · R rows, n x w · C candidates of a sentence.
"""

from collections.abc import Sequence

import numpy as np

from worker.engine.search.beam import IMPOSSIBLE, BeamSearch
from worker.engine.search.beam_candidates import Continuations, best_continuations
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.logit_rules import Floats, Ids
from worker.engine.search.required_phrases import RequiredPhrases
from worker.engine.search.rows import Flags, RowOrder, compact_rows


class ConstrainedSearch(BeamSearch):
    """The running sentences. A sentence of which no beam holds all phrases at the token limit has no hypothesis."""

    def __init__(self, rules: GenerationConfig, *, first_step_rows: int) -> None:
        super().__init__(rules, first_step_rows=first_step_rows)
        self._phrases = RequiredPhrases([segment.required for segment in rules.segments], rules.continuing_ids)
        self._longest = np.array([segment.longest or rules.max_new_tokens for segment in rules.segments])
        self._filler = 0 if rules.eos_id else 1  # the id of a candidate that does not exist
        # By rows, as scores are:
        self._nodes = np.empty((0, rules.num_beams), np.int64)  # (n, k)
        self._met = np.empty((0, rules.num_beams), np.int64)  # (n, k)

    def add(self, sentences: Sequence[int]) -> None:
        super().add(sentences)
        k = self._rules.num_beams
        beginnings = np.repeat(self._phrases.beginnings[list(sentences), None], k, axis=1)
        self._nodes = np.concatenate((self._nodes, beginnings))
        self._met = np.concatenate((self._met, np.zeros_like(beginnings)))

    def _best(
        self, logits: Floats, scales: Floats | None, normalizer: Floats, before: Floats, order: Ids
    ) -> Continuations:
        n, width = before.shape
        vocab_size = logits.shape[1]
        nodes = self._nodes[:, :width].ravel()  # (R,)
        held = self._phrases.held(nodes, self._met[:, :width].ravel())
        lacking = np.repeat(self._full, width) & ~held
        logits[lacking != 0, self._rules.eos_id] = -np.inf
        before = before.reshape(-1, 1)
        own = best_continuations(
            logits,
            scales,
            normalizer,
            before,
            np.zeros_like(nodes)[:, None],
            min(2 * self._rules.num_beams, vocab_size),
        )  # (R, some)
        scores, ids = self._with_phrases(
            own, logits, scales, normalizer, before[:, 0], *self._phrases.next_ids(nodes, lacking)
        )
        sentences = np.arange(n)[:, None]
        each = scores.shape[1]
        scores = scores.reshape(n, width, each)[sentences, order].reshape(n, -1)  # by beams: (n, C)
        ids = ids.reshape(n, width, each)[sentences, order].reshape(n, -1)
        parents = np.repeat(order, each, axis=1)
        chosen = share_over_banks(scores, self._num_met(parents, ids), 2 * self._rules.num_beams)
        return Continuations(scores[sentences, chosen], parents[sentences, chosen], ids[sentences, chosen])

    def _with_phrases(
        self,
        own: Continuations,
        logits: Floats,
        scales: Floats | None,
        normalizer: Floats,
        before: Floats,
        ids: Ids,
        rows: Ids,
    ) -> tuple[Floats, Ids]:
        """The continuations of each row, its best and then those with `ids` (m,) in `rows` (m,) that are not among
        them: scores and ids (R, some more), at least 2k of a sentence. What does not exist has the score -inf."""
        is_new = ~(own.ids[rows] == ids[:, None]).any(axis=1)
        ids, rows = ids[is_new], rows[is_new]
        scores = logits[rows, ids]
        if scales is not None:
            scores = scores * scales[rows]
        scores = scores - normalizer[rows] + before[rows]
        counts = np.bincount(rows, minlength=len(own.ids))
        least = 2 * self._rules.num_beams - own.ids.shape[1]  # a vocabulary may have fewer ids
        shape = len(own.ids), max(int(counts.max(initial=0)), least)
        more, more_ids = np.full(shape, -np.inf, np.float32), np.full(shape, self._filler)
        places = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        more[rows, places], more_ids[rows, places] = scores, ids
        return np.concatenate((own.scores, more), axis=1), np.concatenate((own.ids, more_ids), axis=1)

    def _running(self, candidates: Continuations, ends: Flags) -> tuple[Floats, Ids, Ids]:
        sentences = np.arange(len(ends))[:, None]
        going_on = np.argsort(ends, axis=1, kind="stable")[:, : self._rules.num_beams]  # in the order of the banks
        scores = candidates.scores[sentences, going_on]
        best = going_on[sentences, np.argsort(-scores, axis=1, kind="stable")]
        return candidates.scores[sentences, best], candidates.rows[sentences, best], candidates.ids[sentences, best]

    def _add_ended(self, candidates: Continuations, ends: Flags, penalties: Floats, truncated: Flags) -> None:
        k = self._rules.num_beams
        held = self._phrases.held(*self._follow(candidates.rows[:, :k], candidates.ids[:, :k]))
        super()._add_ended(candidates, ends & (held == self._full[:, None]), penalties, truncated)

    def _may_improve(self, best: Floats, penalties: Floats, longest: int) -> Flags:
        return super()._may_improve(best, penalties, longest) & (self._lengths < self._longest[self._sentences])

    @property
    def _to_beat(self) -> Floats:
        # Beams that lack a phrase cannot end, and behind what would be their end they may score well for long. So where
        # phrases are required one hypothesis is enough.
        return np.where(self._full != 0, self._ended.best, self._ended.worst)

    def _continue(self, scores: Floats, parents: Ids, ids: Ids) -> Ids:
        nodes, met = self._follow(parents, ids)  # by beams
        continued = super()._continue(scores, parents, ids)
        self._nodes, self._met = np.empty_like(nodes), np.empty_like(met)
        np.put_along_axis(self._nodes, self._rows, nodes, axis=1)
        np.put_along_axis(self._met, self._rows, met, axis=1)
        return continued

    def _reorder(self, continued: Ids, done: Flags, width: int) -> RowOrder:
        if done.any():
            stay = compact_rows(~done)
            self._nodes, self._met = self._nodes[stay], self._met[stay]
        return super()._reorder(continued, done, width)

    @property
    def _full(self) -> Ids:
        """What the running sentences require (n,)."""
        return self._phrases.full[self._sentences]

    def _follow(self, parents: Ids, ids: Ids) -> tuple[Ids, Ids]:
        """The nodes and the requirements met of candidates, by the rows that they continue and their ids (n, any)."""
        sentences = np.arange(len(parents))[:, None]
        nodes, met = self._nodes[sentences, parents], self._met[sentences, parents]
        next_nodes, next_met = self._phrases.follow(nodes, met, ids)
        if not self._rules.first_free_step:
            return next_nodes, next_met
        is_language = self._lengths[:, None] <= self._rules.first_free_step  # before the translation begins
        return np.where(is_language, nodes, next_nodes), np.where(is_language, met, next_met)

    def _num_met(self, parents: Ids, ids: Ids) -> Ids:
        nodes, met = self._follow(parents, ids)
        return self._phrases.num_met(nodes, self._phrases.held(nodes, met), self._sentences[:, None])


def share_over_banks(scores: Floats, banks: Ids, count: int) -> Ids:
    """Choose `count` of the candidates of each sentence: the best of each bank, the highest bank first, then the second
    of each, and so on; last those that do not exist. Of equal scores the earlier one is better.

    scores  -1 -2 -9 -3 -8                      -2 and -9 are of the bank 1, the others of 0
    banks    0  1  1  0  0     ->   1 0 2 3 4
    """
    sentences, places = np.arange(len(scores))[:, None], np.arange(scores.shape[1])
    exists = scores > IMPOSSIBLE / 2
    best_first = np.argsort(-scores, axis=1, kind="stable")
    banks = np.where(exists, banks, -1)[sentences, best_first]
    by_bank = np.argsort(-banks, axis=1, kind="stable")
    banks = banks[sentences, by_bank]
    is_first = np.ones(banks.shape, np.bool_)
    is_first[:, 1:] = banks[:, 1:] != banks[:, :-1]
    ranks = places - np.maximum.accumulate(np.where(is_first, places, 0), axis=1)  # within the bank
    ranks[banks < 0] += scores.shape[1]
    chosen = np.argsort(ranks, axis=1, kind="stable")[:, :count]
    taken: Ids = best_first[sentences, by_bank[sentences, chosen]]
    return taken
