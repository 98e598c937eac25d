"""
Scoring given targets with exported graphs: they give the logits of every position, which are reduced here.

Shapes: B pairs · R of them in one call · S longest source · T longest target · V vocabulary.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.runtime.run_context import RunContext
from worker.engine.search.logit_rules import Floats, log_normalizer
from worker.engine.seq2seq.batches import IdPair, pad
from worker.engine.seq2seq.exported.graphs import ExportedSeq2SeqGraphs

MAX_LOGITS = 1 << 24  # numbers of one call of the decoder, unless one target alone has more: 64 MB


class ExportedScorer:
    """One lane's scorer; it keeps no memory between calls."""

    def __init__(self, graphs: ExportedSeq2SeqGraphs, start_id: int, pad_id: int) -> None:
        self._graphs = graphs
        self._start_id = start_id
        self._pad_id = pad_id

    def has_ids(self, ids: Sequence[int]) -> NDArray[np.bool_]:
        return np.asarray(ids, np.int64) < self._graphs.layout.vocab_size

    def log_probs(self, pairs: Sequence[IdPair], run: RunContext) -> list[Floats]:
        sources = pad([pair.source for pair in pairs], range(len(pairs)), self._pad_id)
        with run.measure("encode", rows=len(pairs), tokens=sources.input_ids.size):
            hidden = self._graphs.encoder.run(
                ["last_hidden_state"], {"input_ids": sources.input_ids, "attention_mask": sources.attention_mask}
            )[0]  # (B, S, D)
        targets = [[self._start_id if pair.start_id is None else pair.start_id, *pair.target] for pair in pairs]
        longest = max(map(len, targets)) - 1
        rows_per_call = max(1, MAX_LOGITS // (longest * self._graphs.layout.vocab_size))
        by_pair: list[Floats] = []
        for start in range(0, len(pairs), rows_per_call):
            rows = slice(start, start + rows_per_call)
            logits = self._decode([ids[:-1] for ids in targets[rows]], hidden[rows], sources.attention_mask[rows], run)
            with run.measure("head", rows=len(logits), tokens=sum(len(pair.target) for pair in pairs[rows])):
                by_pair.extend(_gather(row, pair.target) for row, pair in zip(logits, pairs[rows], strict=True))
        return by_pair

    def _decode(
        self, prefixes: Sequence[Sequence[int]], hidden: NDArray[Any], mask: NDArray[np.int64], run: RunContext
    ) -> NDArray[Any]:
        """Logits (R, T, V). Padding comes after a row's own tokens, which do not attend to it."""
        graphs = self._graphs
        batch = pad(prefixes, range(len(prefixes)), self._pad_id)
        feed = {
            "input_ids": batch.input_ids,
            "encoder_hidden_states": hidden,
            "encoder_attention_mask": mask,
            "decoder_attention_mask": batch.attention_mask,
            "use_cache_branch": np.array([False]),
            **graphs.dummy_past(len(prefixes)),
        }
        with run.measure("prefill", rows=len(prefixes), tokens=batch.input_ids.size):
            logits: NDArray[Any] = graphs.first_decoder.run(
                ["logits"], {name: array for name, array in feed.items() if name in graphs.first_inputs}
            )[0]
        return logits


def _gather(logits: NDArray[Any], target: Sequence[int]) -> Floats:
    """Logits of one row (T, V) -> log-probabilities of its tokens."""
    logits = np.asarray(logits[: len(target)], np.float32)
    with np.errstate(invalid="ignore"):  # the task finds infinities in the result
        log_probs: Floats = logits[np.arange(len(target)), np.asarray(target)] - log_normalizer(logits)
    return log_probs
