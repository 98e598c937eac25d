"""
An exported graph of a causal language model, and how it is called.

Knows: its inputs and outputs. Does not know: which sequences go together, what their logits are for.

Shapes: B rows · S length of the longest row · P past length · K key/value heads · H head size · V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from worker.engine.causal.exported.broadcast_past import Past
from worker.models.layout.causal_layout import IDS, LOGITS, MASK, NUM_LOGITS, POSITIONS, CausalLayout


@dataclass(frozen=True, slots=True)
class ExportedCausalGraph:
    """A session and the layout of its graph. Several threads may call it at once."""

    file: Path
    session: onnxruntime.InferenceSession
    layout: CausalLayout

    def call(
        self,
        rows: Sequence[Sequence[int]],
        past: Past = (),
        *,
        wants_logits: bool = True,
        wants_present: bool = False,
        is_quiet: bool = False,
    ) -> tuple[NDArray[Any], Past]:
        """Run rows of ids, each after its own past (B, K, P, H). Returns logits (B, S, V), and the present
        (B, K, P + S, H); empty if not wanted.

        Beyond a row's end, logits and present are undefined. `is_quiet`: do not log an error that is raised.
        """
        cache = self.layout.cache
        past_length = past[0].shape[2] if past else 0
        lengths = np.array([len(row) for row in rows])
        ids = np.empty((len(rows), lengths.max()), np.int64)  # (B, S)
        for row, tokens in enumerate(rows):
            ids[row, : len(tokens)] = tokens
            ids[row, len(tokens) :] = tokens[-1]  # padded with an id of the row itself: NaN x 0 is NaN, masked or not
        mask = (np.arange(past_length + ids.shape[1]) < past_length + lengths[:, None]).astype(np.int64)  # (B, P + S)
        feed: dict[str, NDArray[Any]] = {IDS: ids}
        if self.layout.has_mask:
            feed[MASK] = mask
        if self.layout.has_positions:
            feed[POSITIONS] = np.maximum(mask.cumsum(axis=1) - 1, 0)[:, past_length:]
        if self.layout.num_logits_rank is not None:
            # 0: all logits. The graph always computes the head: for one token if no logits are wanted.
            feed[NUM_LOGITS] = np.full((1,) * self.layout.num_logits_rank, not wants_logits, np.int64)
        outputs = [LOGITS] if wants_logits else []
        if cache:
            if not past:
                past = [np.empty((len(rows), cache.num_heads, 0, size), cache.dtype) for size in cache.sizes]
            feed.update({name: array for (name, _), array in zip(cache.names, past, strict=True)})
            outputs += [name for _, name in cache.names] if wants_present else []
        options = onnxruntime.RunOptions()
        if is_quiet:
            options.log_severity_level = 4
        results = self.session.run(outputs, feed, options)
        return (results[0], results[1:]) if wants_logits else (np.empty((len(rows), 0, 0), np.float32), results)

    def step(
        self, ids: NDArray[np.int64], past: Past, lengths: NDArray[np.int64], *, is_quiet: bool = False
    ) -> tuple[NDArray[Any], Past]:
        """Read one id (B,) in each row, after the last `lengths` (B,) positions of its past (B, K, P, H); the others
        are masked. Returns logits (B, V), and the present (B, K, P + 1, H)."""
        assert self.layout.cache is not None
        past_length = past[0].shape[2]
        feed: dict[str, NDArray[Any]] = {IDS: ids[:, None]}
        if self.layout.has_mask:
            feed[MASK] = (np.arange(past_length + 1) >= past_length - lengths[:, None]).astype(np.int64)  # (B, P + 1)
        if self.layout.has_positions:
            feed[POSITIONS] = lengths[:, None]
        if self.layout.num_logits_rank is not None:
            feed[NUM_LOGITS] = np.ones((1,) * self.layout.num_logits_rank, np.int64)
        names = self.layout.cache.names
        feed.update({name: array for (name, _), array in zip(names, past, strict=True)})
        options = onnxruntime.RunOptions()
        if is_quiet:
            options.log_severity_level = 4
        logits, *present = self.session.run([LOGITS, *(name for _, name in names)], feed, options)
        return logits[:, -1], present
