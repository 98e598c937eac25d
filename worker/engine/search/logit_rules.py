"""
What a search does to logits: forbid tokens, normalize, find the best.

The rules and their order follow transformers' logits processors. A vocabulary has 65,000 entries and a batch many rows,
so every function passes over the logits as seldom as possible (figures: 32 rows x 65,001, one core).

Shapes: R rows of the step · V vocabulary · T tokens allocated.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from worker.kernels.compiled import compiled_kernels

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]

_BLOCK, _SMALL_BLOCK = 64, 8  # see `top_k`
_SCRATCH = 32_768  # numbers that the normalizer computes together: 128 KB
_MIN_SUM, _MAX_SUM = np.float32(1e-20), np.float32(1e30)  # between them a sum of exponentials is exact in float32


class LogitRules(Protocol):
    """Which tokens are forbidden, or less likely."""

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The ids that end a sequence."""

    @property
    def min_new_tokens(self) -> int:
        """How many tokens are generated before one of `eos_ids` may be."""

    @property
    def suppressed_ids(self) -> tuple[int, ...]:
        """Ids that are never generated."""

    @property
    def begin_suppressed_ids(self) -> tuple[int, ...]:
        """Ids that are never generated at the step `first_free_step`."""

    @property
    def first_free_step(self) -> int:
        """The first step whose token is not forced."""

    @property
    def bad_sequences(self) -> tuple[tuple[int, ...], ...]:
        """Sequences of two ids or more that are never generated."""

    @property
    def repetition_penalty(self) -> float:
        """The factor that makes tokens of the sequence so far less likely; 1.0: no penalty."""

    @property
    def no_repeat_ngram_size(self) -> int:
        """The length, in ids, of the sequences that are never repeated; 0: no such rule."""

    @property
    def renormalize_logits(self) -> bool:
        """Whether log-probabilities sum to 1 after the rules, and not before."""


def apply_rules(
    logits: Floats,
    scales: Floats | None,
    tokens: Ids,
    lengths: Ids,
    rules: LogitRules,
    *,
    steps: Ids,
    to_log_probs: bool,
) -> tuple[Floats, Floats | None]:
    """Set the logits (R, V) of forbidden tokens to -inf, in place. Returns the log-normalizer of each row (R,), and
    the factors of the rows: `scales` (R,), or None.

    `tokens` (R, T) are the tokens so far, the first `lengths` (R,) of each row, the start token or the prompt included.
    `steps` (R,) count the generated ones.

    `logits * scales - normalizer` are the log-probabilities of the model itself: forbidden tokens contribute to the
    normalizer, unless the model's settings ask for renormalization. A normalizer that is not finite marks a broken row:
    its logits hold NaN or +inf, or nothing but -inf.

    `to_log_probs`: a repetition penalty acts on log-probabilities (beam search), else on logits (greedy).
    """
    penalized = rules.repetition_penalty != 1.0
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):  # broken rows are found by their normalizer
        if penalized and scales is not None:
            logits *= scales[:, None]
            scales = None
        late = rules.renormalize_logits or penalized
        normalizer = np.zeros(len(logits), np.float32) if late and not penalized else log_normalizer(logits, scales)
        broken = ~np.isfinite(normalizer)
        if penalized:
            if to_log_probs:
                logits -= normalizer[:, None]
            for rows, so_far in _by_length(tokens, lengths):
                _penalize(logits, rows, so_far, rules.repetition_penalty)
        _forbid(logits, steps, rules)
        if rules.bad_sequences or rules.no_repeat_ngram_size:
            for rows, so_far in _by_length(tokens, lengths):
                _forbid_sequences(logits, rows, so_far, rules)
        if late:
            done = to_log_probs and penalized and not rules.renormalize_logits
            normalizer = np.zeros(len(logits), np.float32) if done else log_normalizer(logits, scales)
            normalizer[broken] = np.nan
    return normalizer, scales


def log_normalizer(logits: Floats, scales: Floats | None = None) -> Floats:
    """log(sum(exp(logits * scales))) of each row (R,)."""
    # Without subtracting the highest logit; sums out of range are computed that way.
    with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
        sums = _sum_powers(logits, scales)
        normalizer: Floats = np.log(sums)
        for index in np.flatnonzero(~((sums > _MIN_SUM) & (sums < _MAX_SUM))).tolist():
            row = logits[index] if scales is None else logits[index] * scales[index]
            top = row.max()
            normalizer[index] = top + np.log(np.exp(row - top).sum())
    return normalizer


def _sum_powers(logits: Floats, scales: Floats | None) -> Floats:
    """sum(exp(logits * scales)) of each row (R,)."""
    kernels = compiled_kernels()
    if kernels is not None and logits.flags.c_contiguous:
        return kernels.sum_powers(logits, None if scales is None else np.ascontiguousarray(scales))
    # A few rows at a time, so that they and the scratch rows stay in the second-level cache. numpy's `exp` has vector
    # instructions without AVX-512 too, `exp2` has not.
    num_rows, vocab_size = logits.shape
    together = min(num_rows, max(1, _SCRATCH // vocab_size))
    scratch = np.empty((together, vocab_size), np.float32)
    sums = np.empty(num_rows, np.float32)
    for start in range(0, num_rows, together):
        some = slice(start, min(start + together, num_rows))
        powers = scratch[: some.stop - start]
        scaled = logits[some] if scales is None else np.multiply(logits[some], scales[some, None], out=powers)
        np.exp(scaled, out=powers).sum(axis=1, out=sums[some])
    return sums


def top_k(scores: Floats, k: int) -> tuple[Floats, Ids]:
    """The k highest scores of each row and their ids, best first: (R, k) each.

    The k highest scores lie in the k blocks whose maxima are highest, so only those blocks are searched (0.5 ms;
    argpartition over whole rows 22 ms). Block b holds every `num_blocks`-th id, from b on, because a maximum over the
    *first* axis of (block, num_blocks) is one pass of vector instructions.
    """
    num_rows, vocab_size = scores.shape
    block = _BLOCK if vocab_size >= 8 * k * _BLOCK else _SMALL_BLOCK
    num_blocks = vocab_size // block
    if num_blocks <= 2 * k:
        ids = np.broadcast_to(np.arange(vocab_size), scores.shape)
        values = scores
    else:
        blocks = scores[:, : num_blocks * block].reshape(num_rows, block, num_blocks)
        peaks = blocks.max(axis=1)  # (R, num_blocks)
        best = np.argpartition(peaks, num_blocks - k, axis=1)[:, num_blocks - k :]  # (R, k)
        inside = best[:, None, :] + num_blocks * np.arange(block)[None, :, None]  # (R, block, k)
        rest = np.arange(num_blocks * block, vocab_size)
        ids = np.concatenate(
            (inside.reshape(num_rows, -1), np.broadcast_to(rest, (num_rows, len(rest)))), axis=1
        )  # (R, k * block + rest)
        values = np.take_along_axis(scores, ids, axis=1)
        best = np.argpartition(-values, k, axis=1)[:, :k]
        ids = np.sort(np.take_along_axis(ids, best, axis=1), axis=1)  # equal scores in the order of their ids
        values = np.take_along_axis(scores, ids, axis=1)  # (R, k)
    order = np.argsort(-values, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(ids, order, axis=1)


def _by_length(tokens: Ids, lengths: Ids) -> Iterator[tuple[Ids, Ids]]:
    """Yield groups of rows that have equally many tokens: the rows (m,), and their tokens (m, length)."""
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        yield rows, tokens[rows, :length]


def _penalize(logits: Floats, rows: Ids, tokens: Ids, penalty: float) -> None:
    """Make the tokens that a row already contains less likely (the repetition penalty)."""
    present = logits[rows[:, None], tokens]  # (m, length)
    logits[rows[:, None], tokens] = np.where(present < 0, present * penalty, present / penalty)


def _forbid(logits: Floats, steps: Ids, rules: LogitRules) -> None:
    """Forbid the tokens that the rules exclude at this step, whatever tokens came before."""
    if rules.suppressed_ids:
        logits[:, rules.suppressed_ids] = -np.inf
    if rules.min_new_tokens and rules.eos_ids:
        early = np.flatnonzero(steps < rules.min_new_tokens)
        logits[early[:, None], np.asarray(rules.eos_ids)] = -np.inf
    if rules.begin_suppressed_ids:
        rows = np.flatnonzero(steps == rules.first_free_step)
        logits[rows[:, None], np.asarray(rules.begin_suppressed_ids)] = -np.inf


def _forbid_sequences(logits: Floats, rows: Ids, tokens: Ids, rules: LogitRules) -> None:
    """Forbid tokens that would complete a bad or a repeated sequence, given the tokens before (m, length)."""
    length = tokens.shape[1]
    for *before, last in rules.bad_sequences:
        # As in transformers, a row needs one token more than the beginning of the sequence.
        if len(before) < length:
            logits[rows[(tokens[:, -len(before) :] == before).all(axis=1)], last] = -np.inf
    size = rules.no_repeat_ngram_size
    if size and length >= size:
        ngrams: NDArray[Any] = np.lib.stride_tricks.sliding_window_view(
            tokens, size, axis=1
        )  # (m, length - size + 1, size)
        beginning = tokens[:, length - size + 1 :]  # (m, size - 1): the next token would complete it
        row_indices, ngram_indices = np.nonzero((ngrams[:, :, :-1] == beginning[:, None, :]).all(axis=2))
        logits[rows[row_indices], ngrams[row_indices, ngram_indices, -1]] = -np.inf
