"""
The best id of each row exactly, without exact logits of all ids.

The logits of an int8 head differ from the exact ones by no more than a bound. Only an id whose logit comes within twice
the bound of the highest can be the best; the logits of these candidates are computed again in float32.

    x . w - X . W  =  x . (w - W) + (x - X) . W       X, W: the hidden state x and the column w after int8 rounding
    |    ...    | <=  |x| |w - W| + |x - X| |W|       (Cauchy-Schwarz)

A bias is added to both in float32 and changes nothing but the last bits. The result is the token that the float32 head
would give. For the normalizer, the ids that contribute most to it are computed in float32 too, as long as they are few.
If they are many, their errors have either sign and cancel out.

64 rows x 65,001 ids, D = 512, one core: the float32 head takes 31 ms, the int8 head 4.8 and this 4.6.

The bound grows with the longest component of a hidden state: where one stands out, thousands of ids are candidates, and
gathering their columns takes longer than the float32 head. Such a row goes through that head.

Shapes: R rows · V ids of the head · D width · m candidates of all rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from worker.engine.search.logit_rules import Floats, Ids, log_normalizer

_NATS = (6.0, 10.0)  # ids so far below the best are computed exactly too ...
_MAX_IDS = 256  # ... if a row has about so many of them at most, ...
_SAMPLED = 16  # ... judging by one id in 16
_DENSE = 16  # a row with more than a 16th of all ids as candidates goes through the whole head
_SLACK = 1.001  # float32 rounds the bound, too
_ROUNDING = np.float32(1e-5)  # of an exact logit, as a part of the greatest that it can be


@dataclass(frozen=True, slots=True)
class CandidateScreen:
    """A head in float32, and a bound on the error of the int8 head's logits."""

    head: NDArray[np.float32]  # (V, D), mapped from its file: only the pages of candidates are read
    error: float  # the greatest |w - W|
    norm: float  # the greatest |W|
    product: Callable[[Floats], Floats]  # hidden states (r, D) -> their exact logits (r, V), with the bias
    bias: NDArray[np.float32] | None = None  # (V,)

    def add_bias(self, logits: Floats, scales: Floats) -> None:
        """Add the head's bias to the logits of the int8 head (R, V), which are to be multiplied by `scales` (R,), in
        place."""
        if self.bias is None:
            return
        scratch = np.empty_like(self.bias)
        for row, scale in zip(logits, scales, strict=True):  # a row stays in the second-level cache
            np.divide(self.bias, scale, out=scratch)
            row += scratch

    def best(
        self, logits: Floats, scales: Floats, hidden: Floats, normalizer: Floats, *, renormalize: bool = False
    ) -> tuple[Ids, Floats, Floats]:
        """The best id of each row, its logit, and a better normalizer, (R,) each.

        `logits` (R, V), to be multiplied by `scales` (R,), come from the int8 head, bias included; forbidden ids are
        -inf. `hidden` (R, D): the states they were computed from. `renormalize`: the normalizer is that of the allowed
        ids, else of all. A row that is not finite keeps its normalizer, which is not finite either.
        """
        is_finite = np.isfinite(normalizer)
        with np.errstate(invalid="ignore"):
            tops, bound = logits.max(axis=1), self._bound(hidden, scales)  # (R,)
            reach = 2 * bound / scales
            sample = logits[:, ::_SAMPLED]
            for nats in _NATS:
                wider = np.maximum(2 * bound, nats) / scales
                num_within = np.count_nonzero(sample >= (tops - wider)[:, None], axis=1) * _SAMPLED
                reach = np.where(num_within <= _MAX_IDS, wider, reach)
            num_candidates = np.count_nonzero(sample >= (tops - reach)[:, None], axis=1) * _SAMPLED
        is_dense = is_finite & (num_candidates * _DENSE > logits.shape[1])
        least = np.where(is_finite & ~is_dense, tops - reach, np.inf)
        # (m,) each, row by row, ids ascending; np.nonzero of a matrix takes 8.3 ms, this 0.5.
        rows, ids = np.divmod(np.flatnonzero(logits >= least[:, None]), logits.shape[1])
        exact = np.einsum("md,md->m", self.head[ids], hidden[rows])  # (m,)
        if self.bias is not None:
            exact += self.bias[ids]
        best, best_logits = np.zeros(len(logits), np.int64), np.full(len(logits), np.nan, np.float32)
        screened, starts = np.unique(rows, return_index=True)
        if len(screened):
            best_logits[screened] = np.maximum.reduceat(exact, starts)
            is_best = np.flatnonzero(exact == best_logits[rows])
            first = np.unique(rows[is_best], return_index=True)[1]  # of equal logits the lowest id, as argmax gives
            best[screened] = ids[is_best[first]]
            normalizer = normalizer.copy()
            # How likely all other ids are, forbidden ones included, int8 says; where float32 rounds, they are not.
            shares = np.add.reduceat(np.exp(logits[rows, ids] * scales[rows] - normalizer[rows]), starts)
            with np.errstate(divide="ignore"):
                others = normalizer[screened] + np.log(np.maximum(1 - shares, 0))
            exponentials = np.exp(exact - best_logits[rows])
            of_candidates = best_logits[screened] + np.log(np.add.reduceat(exponentials, starts))
            normalizer[screened] = np.logaddexp(others, of_candidates)
        if is_dense.any():
            normalizer = normalizer.copy()
            exact = self.product(hidden[is_dense])
            all_ids = None if renormalize else log_normalizer(exact)
            exact[logits[is_dense] == -np.inf] = -np.inf
            normalizer[is_dense] = log_normalizer(exact) if all_ids is None else all_ids
            best[is_dense] = exact.argmax(axis=1)
            best_logits[is_dense] = exact.max(axis=1)
        return best, best_logits, normalizer

    def _bound(self, hidden: Floats, scales: Floats) -> Floats:
        """How far an int8 logit of each row may be from the exact one (R,)."""
        with np.errstate(invalid="ignore"):
            rounded = np.rint(hidden / scales[:, None]) * scales[:, None]
            length = np.sqrt(np.einsum("rd,rd->r", hidden, hidden))
            lost = np.sqrt(np.einsum("rd,rd->r", hidden - rounded, hidden - rounded))
        # |x - X| again, for values halfway between two steps that were rounded the other way: an ulp of the scale.
        largest = length * self.norm + (0 if self.bias is None else np.abs(self.bias).max())
        bound: Floats = _SLACK * (length * self.error + lost * self.norm) + _ROUNDING * largest
        return bound
