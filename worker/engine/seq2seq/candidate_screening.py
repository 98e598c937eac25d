"""
The best id of each row, exactly, without the exact logits of all ids.

The head in int8 gives logits that are off by no more than a bound. Only ids whose logit comes within twice the bound
of the highest can be the best in float32; their logits alone are computed in float32, and the best of them is taken.

    x . w - X . W  =  x . (w - W) + (x - X) . W       X, W: what int8 makes of the hidden state x and the column w
    |    ...    | <=  |x| |w - W| + |x - X| |W|       (Cauchy-Schwarz)

It gives the token that the whole product gives. For the normalizer, every id with a share that counts is computed
exactly too, as long as those are not many. Where they are, their errors have either sign and make up for each other.

64 rows x 65,001 ids, D = 512, one core: the exact head takes 31 ms, its int8 twin 4.8 and this 4.6.

Shapes: R rows · V ids of the head · D width · m candidates of all rows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from worker.engine.search.logit_rules import Floats, Ids

_NATS = (6.0, 10.0)  # below the best, an id is still computed exactly ...
_MOST = 256  # ... if there are about so many of them in its row, ...
_SAMPLED = 16  # ... going by one in 16
_SLACK = 1.001  # float32 rounds the bound, too
_ROUNDED = np.float32(1e-5)  # and the exact logits: of their greatest possible size


@dataclass(frozen=True, slots=True)
class CandidateScreen:
    """A head in float32, and how far its int8 twin may be off."""

    head: NDArray[np.float32]  # (V, D), mapped: of its pages only those of candidates are ever read
    error: float  # the greatest |w - W|
    norm: float  # the greatest |W|

    def best(self, logits: Floats, scales: Floats, hidden: Floats, normalizer: Floats) -> tuple[Ids, Floats, Floats]:
        """The best id of each row, its logit, and a better normalizer (R,) each.

        `logits` (R, V), to be multiplied by `scales` (R,), are those of the int8 head; ids that are forbidden are
        -inf there. `hidden` is (R, D). Rows that are not finite keep their normalizer, which says so.
        """
        sound = np.isfinite(normalizer)
        with np.errstate(invalid="ignore"):
            tops, bound = logits.max(axis=1), self._bound(hidden, scales)  # (R,)
            reach = 2 * bound / scales
            sample = logits[:, ::_SAMPLED]
            for nats in _NATS:
                wider = np.maximum(2 * bound, nats) / scales
                num_within = np.count_nonzero(sample >= (tops - wider)[:, None], axis=1) * _SAMPLED
                reach = np.where(num_within <= _MOST, wider, reach)
        least = np.where(sound, tops - reach, np.inf)
        # (m,) each, row by row, ids ascending; np.nonzero of a matrix takes 8.3 ms, this 0.5.
        rows, ids = np.divmod(np.flatnonzero(logits >= least[:, None]), logits.shape[1])
        exact = np.einsum("md,md->m", self.head[ids], hidden[rows])  # (m,)
        best, best_logits = np.zeros(len(logits), np.int64), np.full(len(logits), np.nan, np.float32)
        found, starts = np.unique(rows, return_index=True)
        if len(found):
            best_logits[found] = np.maximum.reduceat(exact, starts)
            is_best = np.flatnonzero(exact == best_logits[rows])
            first = np.unique(rows[is_best], return_index=True)[1]  # of equal ones the lowest id, as argmax does
            best[found] = ids[is_best[first]]
            shares = np.exp(exact - normalizer[rows]) - np.exp(logits[rows, ids] * scales[rows] - normalizer[rows])
            normalizer = normalizer.copy()
            normalizer[found] += np.log1p(np.add.reduceat(shares, starts))
        return best, best_logits, normalizer

    def _bound(self, hidden: Floats, scales: Floats) -> Floats:
        """How far an int8 logit of each row may be from the exact one (R,)."""
        with np.errstate(invalid="ignore"):
            rounded = np.rint(hidden / scales[:, None]) * scales[:, None]
            length = np.sqrt(np.einsum("rd,rd->r", hidden, hidden))
            lost = np.sqrt(np.einsum("rd,rd->r", hidden - rounded, hidden - rounded))
        # |x - X| once more where halves were rounded the other way: off by an ulp of the scale at most.
        bound: Floats = _SLACK * (length * self.error + lost * self.norm) + _ROUNDED * length * self.norm
        return bound
