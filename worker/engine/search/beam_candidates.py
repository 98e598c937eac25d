"""
The 2k best continuations of every sentence: one pass over the logits, then a few hundred numbers a sentence.

    logits of a row      highest of each block    the 2k best blocks of a sentence    the 2k best ids in them
    (w, V) a sentence -> (w, num_blocks)       -> (2k, block)                      -> (2k,)

A score is `logit * scale - normalizer + score of the beam`. Each of these operations keeps the order of two numbers
(or makes them equal), so the score of the highest logit of a block is the highest score of the block.

Where equal scores would decide which continuations are kept, the fast way gives up: then all logits are sorted, by
score, beam, logit, id.

Shapes: n sentences · w rows of each · k beams · R rows, n x w · V vocabulary.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from worker.engine.search.logit_rules import Floats, Ids
from worker.kernels.compiled import compiled_kernels

# Ids of a block. 128 rows x 945: 130 us with 16, 170 with 8, 240 with 32. 128 x 65,001: 2.7 ms with 64, 3.8 with 16.
_BLOCK, _SMALL_BLOCK = 64, 16
_SHORT = 4096  # ids: up to here a vocabulary has small blocks


@dataclass(frozen=True, slots=True)
class Continuations:
    """The 2k best of each sentence, best first: (n, 2k) each."""

    scores: Floats
    rows: Ids  # the rows that they continue, counted within the sentence
    ids: Ids

    def replace(self, sentences: Ids, other: "Continuations") -> None:
        """Overwrite the continuations of `sentences` (m,) with `other`, (m, 2k) each."""
        self.scores[sentences], self.rows[sentences], self.ids[sentences] = other.scores, other.rows, other.ids


def best_continuations(
    logits: Floats, scales: Floats | None, normalizer: Floats, before: Floats, order: Ids, count: int
) -> Continuations:
    """The `count` best continuations of each sentence, best first: (n, count) each.

    `logits` (R, V), to be multiplied by `scales` (R,) and reduced by `normalizer` (R,). `before` (n, w): the score of
    the beam in each row. `order` (n, w): the rows of a sentence in the order of their beams, for equal scores.
    """
    n, width = before.shape
    with np.errstate(invalid="ignore"):
        block = _SMALL_BLOCK if logits.shape[1] <= _SHORT else _BLOCK
        if logits.shape[1] * width >= 2 * count * block:
            kernels = compiled_kernels()
            if kernels is not None and count <= kernels.MAX_CONTINUATIONS and logits.flags.c_contiguous:
                scales = None if scales is None else np.ascontiguousarray(scales)
                best = kernels.best_continuations(logits, scales, normalizer, np.ascontiguousarray(before), count)
                continuations, is_sure = Continuations(*best[:3]), best[3]
            else:
                continuations, is_sure = _from_blocks(logits, scales, normalizer, before, count, block)
            if is_sure.all():
                return continuations
            unsure = np.flatnonzero(~is_sure)
        else:
            unsure = np.arange(n)
        rows = (width * unsure[:, None] + np.arange(width)).ravel()
        slow = _from_all(
            logits[rows],
            None if scales is None else scales[rows],
            normalizer[rows],
            before[unsure],
            order[unsure],
            count,
        )
    if len(unsure) == n:
        return slow
    continuations.replace(unsure, slow)
    return continuations


def _from_blocks(
    logits: Floats, scales: Floats | None, normalizer: Floats, before: Floats, count: int, block: int
) -> tuple[Continuations, NDArray[np.bool_]]:
    """The best continuations of each sentence, and whether they are certain (n,): not if scores are equal or not
    finite."""
    n, width = before.shape
    vocab_size = logits.shape[1]
    # Block b holds every `num_blocks`-th id, from b on, because a maximum over the *first* axis of (block, num_blocks)
    # is one pass of vector instructions. The last id of the last blocks may not exist.
    num_blocks = -(-vocab_size // block)
    full = vocab_size // num_blocks  # ids that every block has
    rest = vocab_size - full * num_blocks  # blocks that have one more
    num_rows = n * width
    peaks = logits[:, : full * num_blocks].reshape(num_rows, full, num_blocks).max(axis=1)
    if rest:
        np.maximum(peaks[:, :rest], logits[:, full * num_blocks :], out=peaks[:, :rest])
    base = before.reshape(num_rows)
    if scales is not None:
        peaks *= scales[:, None]
    peaks -= normalizer[:, None]
    peaks += base[:, None]
    chosen, is_sure = _highest(peaks.reshape(n, width * num_blocks), count)
    rows, blocks = np.divmod(chosen, num_blocks)  # (n, count); rows of all

    size = full + (rest > 0)
    flat_indices = (rows * vocab_size + blocks)[:, :, None] + num_blocks * np.arange(size)  # (n, count, size)
    scores = logits.reshape(-1).take(flat_indices, mode="clip")
    if rest:
        scores[:, :, -1][blocks >= rest] = -np.inf
    if scales is not None:
        scores *= scales[rows][:, :, None]
    scores -= normalizer[rows][:, :, None]
    scores += base[rows][:, :, None]
    flat = scores.reshape(n, count * size)
    chosen, found_all = _highest(flat, count)
    scores = flat.reshape(-1)[chosen]  # (n, count)
    ranks = np.argsort(-scores, axis=1)
    ranks += count * np.arange(n)[:, None]
    scores, chosen = scores.reshape(-1)[ranks], chosen.reshape(-1)[ranks]
    is_sure &= found_all
    is_sure &= (scores[:, 1:] < scores[:, :-1]).all(axis=1)
    block_indices, in_block = np.divmod(chosen, size)
    ids = blocks.reshape(-1)[block_indices] + num_blocks * in_block
    return Continuations(scores, rows.reshape(-1)[block_indices] % width, ids), is_sure


def _highest(values: Floats, count: int) -> tuple[Ids, NDArray[np.bool_]]:
    """The indices of the `count` highest values of each row in the flattened array (n, count), in no order; and whether
    they are certain (n,): not where the lowest of them equals another value, or a value is NaN or -inf."""
    n, size = values.shape
    least = np.partition(values, size - count, axis=1)[:, size - count, None]
    reach = values >= least
    is_sure: NDArray[np.bool_] = (np.count_nonzero(reach, axis=1) == count) & np.isfinite(least[:, 0])
    if not is_sure.all():
        reach[~is_sure] = np.arange(size) < count
    return np.flatnonzero(reach).reshape(n, count), is_sure


def _from_all(
    logits: Floats, scales: Floats | None, normalizer: Floats, before: Floats, order: Ids, count: int
) -> Continuations:
    """As `best_continuations`, by sorting all logits: slow, but certain."""
    n, width = before.shape
    some = min(count, logits.shape[1])
    ids = np.argsort(-logits, axis=1, kind="stable")[:, :some]  # (R, some)
    values = np.take_along_axis(logits, ids, axis=1)
    if scales is not None:
        values *= scales[:, None]
    values -= normalizer[:, None]
    sentences = np.arange(n)[:, None]
    scores = (values.reshape(n, width, some) + before[:, :, None])[sentences, order].reshape(n, -1)  # by beams
    ids = ids.reshape(n, width, some)[sentences, order].reshape(n, -1)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    return Continuations(scores[sentences, best], order[sentences, best // some], ids[sentences, best])
