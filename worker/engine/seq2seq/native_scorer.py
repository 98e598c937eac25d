"""
Given translations through graphs of our own: the log-probability of every token of every target, in one call.

Shapes: B pairs · S longest source · T longest target · M tokens of all targets · D width.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.runtime.run_context import RunContext
from worker.engine.search.logit_rules import Floats, Ids
from worker.engine.seq2seq.encoder_states import encode_sources, feed_sources
from worker.engine.seq2seq.native_graphs import NativeSeq2SeqGraphs
from worker.engine.seq2seq.pair_batches import IdPair

_HEAD_ROWS = 64  # tokens whose logits are in memory at a time; the pairs of `pair_batches.MAX_TOKENS` with 16: 2.12 s


class NativeScorer:
    """One lane's way; it keeps no memory between calls."""

    def __init__(self, graphs: NativeSeq2SeqGraphs, start_id: int) -> None:
        self._graphs = graphs
        self._start_id = start_id

    def can_say(self, ids: Sequence[int]) -> NDArray[np.bool_]:
        """Which of some ids the head has."""
        return self._graphs.head.has(np.asarray(ids, np.int64))

    def log_probs(self, pairs: Sequence[IdPair], run: RunContext) -> list[Floats]:
        """An array for each pair: log p(token | source, tokens before it). Longest source first; the head has
        all ids. Raises what the model raises."""
        body, head = self._graphs.forced()
        cross = encode_sources(self._graphs, [pair.source for pair in pairs], run)
        feed = feed_sources(cross, np.array([len(pair.source) for pair in pairs]))
        rows = _Rows(pairs, self._start_id)
        with run.measure("prefill", rows=len(pairs), tokens=len(rows.ids)):
            hidden = body.run(["hidden"], feed | rows.feed())[0]  # (M, D)
        return rows.split(self._run_head(head, hidden, rows.following, run))

    def _run_head(self, head: Any, hidden: NDArray[Any], following: Ids, run: RunContext) -> Floats:
        """hidden (M, D), following (M,): ids -> (M,)."""
        places = self._graphs.head.to_places(following)[:, None]
        found = np.empty(len(hidden), np.float32)
        for start in range(0, len(hidden), _HEAD_ROWS):
            rows = slice(start, start + _HEAD_ROWS)
            with run.measure("head", rows=len(places[rows]), tokens=len(places[rows])):
                found[rows] = head.run(["log_probs"], {"hidden": hidden[rows], "next": places[rows]})[0][:, 0]
        return found


class _Rows:
    """The targets of a batch, one behind another."""

    def __init__(self, pairs: Sequence[IdPair], start_id: int) -> None:
        self._lengths = lengths = np.array([len(pair.target) for pair in pairs])  # (B,)
        self._starts = starts = np.cumsum(lengths) - lengths  # (B,)
        self.following = np.concatenate([pair.target for pair in pairs]).astype(np.int64)  # (M,)
        self.ids = np.empty_like(self.following)  # (M,): what comes before each
        self.ids[1:] = self.following[:-1]
        self.ids[starts] = start_id

    def feed(self) -> dict[str, NDArray[Any]]:
        """What the body asks for."""
        lengths, starts, longest = self._lengths[:, None], self._starts[:, None], int(self._lengths.max())
        columns = np.arange(longest)  # (T,)
        # A row is filled up with its own last token: a row that is broken (NaN) must not reach another.
        places = starts + np.minimum(columns, lengths - 1)  # (B, T)
        is_token = columns < lengths
        return {
            "ids": self.ids,
            "positions": np.broadcast_to(columns, places.shape)[is_token],
            "places": places,
            "tokens": np.flatnonzero(is_token),
            "ends": np.full(len(places), longest - 1, np.int32),
            "length": np.array([longest], np.int32),
        }

    def split(self, log_probs: Floats) -> list[Floats]:
        """(M,) -> the tokens of each row."""
        return np.split(log_probs, self._starts[1:])
