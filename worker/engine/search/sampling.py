"""Drawing tokens from a model's distribution."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from worker.engine.search.logit_rules import Floats, Ids, top_k

_FIRST_CANDIDATES = 64  # of a row, where their number is not known: of most rows these have the probability p


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token of each row is drawn from the model's distribution: temperature, the k most likely tokens, the
    most likely ones that together have a probability of p (Holtzman et al. 2020), in the order of transformers' logits
    processors.

    A row's random numbers depend on the seed and on its prompt alone, so a document gets the same text whatever it is
    computed with. Shapes: R rows · V vocabulary · k candidates of a row, best first.
    """

    temperature: float  # above 0; logits are divided by it
    top_p: float = 1.0  # 0 < p <= 1
    top_k: int = 0  # 0: of all tokens
    seed: int = 0

    def random_numbers(self, prompt: Sequence[int], seed: int | None = None) -> np.random.Generator:
        """The random numbers of one continuation: Philox (Salmon et al. 2011), whose key is a hash of seed (`self.seed`
        without one) and prompt."""
        content = np.asarray([self.seed if seed is None else seed, *prompt], np.int64).tobytes()
        key = int.from_bytes(hashlib.blake2b(content, digest_size=16).digest(), "little")
        return np.random.Generator(np.random.Philox(key=key))

    def draw(self, logits: Floats, scales: Floats | None, numbers: NDArray[np.float64]) -> Ids:
        """A token of each row (R,), from logits (R, V) to be multiplied by `scales` (R,), and numbers (R,) in [0, 1).
        Forbidden ids are -inf. The token of a row that is not finite means nothing."""
        factors = np.full(len(logits), 1 / self.temperature, np.float64)
        if scales is not None:
            factors *= scales
        with np.errstate(invalid="ignore", over="ignore"):
            if self.top_k:
                return self._draw_from_best(logits, factors, numbers, min(self.top_k, logits.shape[1]))
            if self.top_p < 1:
                return self._draw_from_nucleus(logits, factors, numbers)
            return np.array(
                [
                    _pick(np.cumsum(_weights(row, factor)), number)
                    for row, factor, number in zip(logits, factors, numbers, strict=True)
                ],
                np.int64,
            )

    def _draw_from_best(
        self, logits: Floats, factors: NDArray[np.float64], numbers: NDArray[np.float64], k: int
    ) -> Ids:
        """Draw from the k most likely tokens, cut to the most likely ones whose probabilities sum to p."""
        values, ids = top_k(logits, k)  # (R, k)
        drawn = np.empty(len(logits), np.int64)
        for row, (factor, number) in enumerate(zip(factors, numbers, strict=True)):
            shares = np.cumsum(_weights(values[row], factor))
            drawn[row] = ids[row, _pick(shares[: self._num_kept(shares, shares[-1])], number)]
        return drawn

    def _draw_from_nucleus(self, logits: Floats, factors: NDArray[np.float64], numbers: NDArray[np.float64]) -> Ids:
        """Draw from the most likely tokens whose probabilities sum to p."""
        drawn = np.empty(len(logits), np.int64)
        left, k = np.arange(len(logits)), _FIRST_CANDIDATES
        totals = np.array([_weights(row, factor).sum() for row, factor in zip(logits, factors, strict=True)])
        while len(left):
            k = min(k, logits.shape[1])
            values, ids = top_k(logits[left], k)
            open_rows = []
            for index, row in enumerate(left.tolist()):
                shares = np.cumsum(_weights(values[index], factors[row]))
                if k < logits.shape[1] and shares[-1] < self.top_p * totals[row]:
                    open_rows.append(row)
                    continue
                drawn[row] = ids[index, _pick(shares[: self._num_kept(shares, totals[row])], numbers[row])]
            left, k = np.asarray(open_rows, np.int64), 8 * k
        return drawn

    def _num_kept(self, shares: NDArray[np.float64], total: float) -> int:
        """How many of the best tokens are needed for the probability p; `shares` are sums of their weights."""
        return min(len(shares), int(np.searchsorted(shares, self.top_p * total, side="left")) + 1)


def _weights(logits: Floats, factor: float) -> NDArray[np.float64]:
    """exp(logit * factor) of each token, divided by the largest."""
    scaled = logits * np.float64(factor)
    return np.asarray(np.exp(scaled - scaled.max()))


def _pick(shares: NDArray[np.float64], number: float) -> int:
    """The first token whose sum of weights exceeds the drawn part of all."""
    return min(int(np.searchsorted(shares, number * shares[-1], side="right")), len(shares) - 1)
