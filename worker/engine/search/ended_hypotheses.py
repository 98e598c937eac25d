"""
The best hypotheses of each sentence that have ended, while other beams of it go on.

Shapes: n sentences · k beams · T tokens allocated.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.logit_rules import Floats, Ids
from worker.engine.search.rows import Flags, with_capacity

IMPOSSIBLE = np.float32(-1e9)  # the score of a hypothesis that does not exist, as in transformers


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
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]  # of equal ones those before
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
