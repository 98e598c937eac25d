"""
How large the keys and values of a translation model become: it translates a sample, and the largest absolute value of
each channel gives its scale in int8 (`worker.graphs.seq2seq.quantized_kv`). The translations are the model's own, since
these are what a decoder caches.

Shapes: m sentences of one length · S source length · T target length · L decoder layers · N heads · H head size.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.runtime.device import CPU_PROVIDER
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.seq2seq.native.continuous_batching import ContinuousDecoder
from worker.engine.seq2seq.native.encoder_states import cross_attention_feed
from worker.engine.seq2seq.native.graphs import NativeSeq2SeqGraphs
from worker.engine.seq2seq.native.model import read_rules
from worker.engine.seq2seq.protocol import decode_all
from worker.graphs.checkpoint_weights import Weights
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.kv_bounds import largest_possible
from worker.graphs.seq2seq.quantized_kv import KVScales, LargestKV
from worker.graphs.seq2seq.weights import Seq2SeqWeights

_EXTRA_TOKENS = 8  # that a translation may be longer than its source: a model that never ends is stopped


def measure_scales(
    folder: Path,
    config: Mapping[str, Any],
    weights: Weights,
    head_ids: Sequence[int] | None,
    sources: Sequence[Sequence[int]],
) -> KVScales:
    """The scales of the int8 model in `folder`. Its graphs, which keep keys and values in float32, and its
    configuration are there; `weights`: of its checkpoint; `sources`: sentences of ids, longest first.

    Raises ModelError for settings that the model cannot run with, and weights that are not finite.
    """
    graphs = NativeSeq2SeqGraphs(folder, dict(config), head_ids, Precision.INT8, 1, (CPU_PROVIDER,), on_device=False)
    rules, max_positions = read_rules(folder, config)
    longest = min(rules.max_new_tokens, max_positions, len(sources[0]) + _EXTRA_TOKENS)
    rules = dataclasses.replace(rules, num_beams=1, max_new_tokens=longest, min_new_tokens=0, forced_bos_id=None)
    network = read_network(config)
    possible = largest_possible(network, Seq2SeqWeights(weights, network, None))
    return KVScales.of(largest_seen(graphs, sources, rules), possible)


def largest_seen(graphs: NativeSeq2SeqGraphs, sources: Sequence[Sequence[int]], rules: GenerationConfig) -> LargestKV:
    """The largest keys and values of sentences of ids, longest first, and of their translations by these rules.
    `graphs` keep keys and values in float32."""
    translations = decode_all(ContinuousDecoder(graphs), sources, rules, RunContext(), batch_size=None)
    targets = [[rules.start_id, *best[0].ids][: rules.max_new_tokens] for best in translations]
    shape = graphs.shape
    past = cross = np.zeros((2 * shape.num_layers, shape.num_heads, shape.head_size), np.float32)
    for _, group in groupby(range(len(sources)), key=lambda index: len(sources[index])):
        together = list(group)
        encoded = graphs.encode(np.array([sources[index] for index in together], np.int64))  # (m, S, 2 L, N, H)
        cross = np.maximum(cross, _largest(encoded, axes=(0, 1)))
        past = np.maximum(past, _largest_past(graphs, encoded, [targets[index] for index in together]))
    return LargestKV(past, cross)


def _largest_past(
    graphs: NativeSeq2SeqGraphs, cross: NDArray[Any], targets: Sequence[Sequence[int]]
) -> NDArray[np.float32]:
    """The largest keys and values of self-attention (2 L, N, H), over the tokens of the targets. The sources have one
    length."""
    lengths = np.array([len(target) for target in targets])
    ids = np.zeros((len(targets), int(lengths.max())), np.int64)
    for row, target in zip(ids, targets, strict=True):
        row[: len(target)] = target  # ids after its end change nothing before it
    decoder = graphs.uncached_decoder()
    names = [output.name for output in decoder.get_outputs() if output.name != "logits"]
    feed = {
        "ids": ids,
        "ends": np.full(len(ids), ids.shape[1] - 1, np.int32),
        "length": np.array([ids.shape[1]], np.int32),
        **cross_attention_feed(cross.transpose(2, 0, 3, 1, 4), np.full(len(ids), cross.shape[1])),
    }
    is_token = np.arange(ids.shape[1]) < lengths[:, None]  # (m, T)
    present = np.stack(decoder.run(names, feed))  # (2 L, m, N, T, H)
    return _largest(np.where(is_token[None, :, None, :, None], present, 0), axes=(1, 3))


def _largest(values: NDArray[np.float32], axes: tuple[int, ...]) -> NDArray[np.float32]:
    """The largest absolute value along some axes. A sentence with a broken token, which is not finite, is left out."""
    largest: NDArray[np.float32] = np.abs(np.nan_to_num(values, nan=0, posinf=0, neginf=0)).max(axis=axes)
    return largest
