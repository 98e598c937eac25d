"""
Scoring given targets with native graphs: the log-probability of every token of every target of a batch.

Shapes: B pairs · S longest source · T longest target · M tokens of all targets · D width.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.runtime.run_context import RunContext
from worker.engine.search.logit_rules import Floats, Ids
from worker.engine.seq2seq.batches import IdPair
from worker.engine.seq2seq.native.encoder_states import cross_attention_feed, encode_padded
from worker.engine.seq2seq.native.graphs import NativeSeq2SeqGraphs
from worker.graphs.seq2seq.quantized_kv import broken_sentences

_HEAD_ROWS = 64  # tokens whose logits are in memory at a time; the pairs of `pair_batches.MAX_TOKENS` with 16: 2.12 s


class NativeScorer:
    """One lane's scorer; it keeps no memory between calls."""

    def __init__(self, graphs: NativeSeq2SeqGraphs, start_id: int) -> None:
        self._graphs = graphs
        self._start_id = start_id

    def has_ids(self, ids: Sequence[int]) -> NDArray[np.bool_]:
        return self._graphs.head.has(np.asarray(ids, np.int64))

    def log_probs(self, pairs: Sequence[IdPair], run: RunContext) -> list[Floats]:
        body = self._graphs.scoring_body()
        cross = encode_padded(self._graphs, [pair.source for pair in pairs], run)
        feed = cross_attention_feed(cross, np.array([len(pair.source) for pair in pairs]))
        targets = PackedTargets(pairs, self._start_id)
        with run.measure("prefill", rows=len(pairs), tokens=len(targets.ids)):
            hidden = body.run(["hidden"], feed | targets.feed())[0]  # (M, D)
        log_probs = targets.split(self._run_head(hidden, targets.next_ids, run))
        for index in np.flatnonzero(broken_sentences(cross[0, :, :, 0])).tolist():
            log_probs[index][:] = np.nan
        return log_probs

    def _run_head(self, hidden: NDArray[Any], next_ids: Ids, run: RunContext) -> Floats:
        """hidden (M, D), next_ids (M,) -> log-probabilities (M,)."""
        next_rows = self._graphs.head.to_rows(next_ids)[:, None]
        log_probs = np.empty(len(hidden), np.float32)
        for start in range(0, len(hidden), _HEAD_ROWS):
            part = slice(start, start + _HEAD_ROWS)
            with run.measure("head", rows=len(next_rows[part]), tokens=len(next_rows[part])):
                log_probs[part] = self._graphs.score_head(hidden[part], next_rows[part])[:, 0]
        return log_probs


class PackedTargets:
    """The targets of a batch, packed one after the other without padding."""

    def __init__(self, pairs: Sequence[IdPair], start_id: int) -> None:
        self._lengths = lengths = np.array([len(pair.target) for pair in pairs])  # (B,)
        self._starts = starts = np.cumsum(lengths) - lengths  # (B,)
        self.next_ids = np.concatenate([pair.target for pair in pairs]).astype(np.int64)  # (M,)
        self.ids = np.empty_like(self.next_ids)  # (M,): the id before each
        self.ids[1:] = self.next_ids[:-1]
        self.ids[starts] = [start_id if pair.start_id is None else pair.start_id for pair in pairs]

    def feed(self) -> dict[str, NDArray[Any]]:
        """The inputs of the scoring body for these targets; `cross_attention_feed` makes the other ones."""
        lengths, starts, longest = self._lengths[:, None], self._starts[:, None], int(self._lengths.max())
        columns = np.arange(longest)  # (T,)
        # A row is padded with its own last token, so that a broken row (NaN) does not reach another.
        token_indices = starts + np.minimum(columns, lengths - 1)  # (B, T)
        is_token = columns < lengths
        return {
            "ids": self.ids,
            "positions": np.broadcast_to(columns, token_indices.shape)[is_token],
            "places": token_indices,
            "tokens": np.flatnonzero(is_token),
            "ends": np.full(len(token_indices), longest - 1, np.int32),
            "length": np.array([longest], np.int32),
        }

    def split(self, log_probs: Floats) -> list[Floats]:
        """Split values of all tokens (M,) into an array for each target."""
        return np.split(log_probs, self._starts[1:])
