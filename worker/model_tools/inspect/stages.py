"""The stages of a split model, for people: the parts of each, its costs, and the device that runs it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jobs.text.formatting import counted
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.stages import stage_costs
from worker.graphs.file_names import stage_graph, stage_weights
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.graphs import cached_dtype
from worker.graphs.seq2seq.stages import translation_stage_costs
from worker.models.file_names import CONFIG
from worker.models.json_file import read_json
from worker.models.manifest import Manifest
from worker.models.model_kind import ModelKind


@dataclass(frozen=True, slots=True)
class StageDescription:
    """A stage. The bytes that it caches and sends are of one token: of a source token for an encoder."""

    number: int
    device: str
    layers: int
    parts: tuple[str, ...]  # the parts that it has, in words
    cost: float  # its share of all multiply-adds of a token
    weights_bytes: int
    cache_bytes: int  # keys and values; a decoder of a translation model has as many for each source token
    sent_bytes: int  # to the next stage, or stages; of the last stage: the input of the head


def describe_stages(folder: Path, manifest: Manifest) -> tuple[StageDescription, ...]:
    """The stages of the model in a folder; none of a model in one piece. Raises ModelError where it is damaged."""
    if manifest.split is None:
        return ()
    config = read_json(folder / CONFIG)
    is_causal = ModelKind.of_architecture(manifest.architecture) is ModelKind.CAUSAL
    item = Precision(manifest.precision or Precision.FP32).float_dtype.itemsize
    if is_causal:
        costs, layer_bytes, sent, parts = _causal(config, manifest, item)
    else:
        costs, layer_bytes, sent, parts = _translation(config, manifest, item, cached_dtype(folder / stage_graph(1)))
    return tuple(
        StageDescription(
            number=number,
            device=stage.device,
            layers=stage.layers,
            parts=parts[number],
            cost=costs[number] / sum(costs),
            weights_bytes=(folder / stage_weights(number)).stat().st_size,
            cache_bytes=0 if number == 0 and not is_causal else stage.layers * layer_bytes,
            sent_bytes=sent[number],
        )
        for number, stage in enumerate(manifest.split.stages)
    )


def num_target_ids(config: Mapping[str, Any], manifest: Manifest) -> int:
    """The ids of a translation model's head."""
    if manifest.head_ids is not None:
        return len(manifest.head_ids)
    return int(config.get("decoder_vocab_size") or config.get("vocab_size") or 1)


# The multiply-adds of each stage, the bytes of a token's keys and values in a layer, the bytes that each stage sends
# for a token, and what each has.
_Described = tuple[Sequence[int], int, Sequence[int], Sequence[tuple[str, ...]]]


def _causal(config: Mapping[str, Any], manifest: Manifest, item: int) -> _Described:
    assert manifest.split is not None
    sizes, stages = read_sizes(config), manifest.split.stages
    last = len(stages) - 1
    parts = [
        (*["embeddings"] * (number == 0), counted(stage.layers, "layer"), *["head"] * (number == last))
        for number, stage in enumerate(stages)
    ]
    costs = stage_costs(sizes, manifest.split.layers())
    return costs, 2 * sizes.kv_heads * sizes.head_size * item, [sizes.width * item] * len(stages), parts


def _translation(config: Mapping[str, Any], manifest: Manifest, item: int, kv_dtype: np.dtype[Any]) -> _Described:
    assert manifest.split is not None
    network, stages = read_network(config), manifest.split.stages
    last = len(stages) - 1
    parts = [("encoder",)] + [
        (*["embeddings"] * (number == 1), counted(stage.layers, "decoder layer"), *["head"] * (number == last))
        for number, stage in enumerate(stages)
        if number
    ]
    costs = translation_stage_costs(config, num_target_ids(config, manifest), manifest.split.layers(first=1))
    layer_bytes = 2 * network.decoder_heads.width * kv_dtype.itemsize
    return costs, layer_bytes, [network.decoder_layers * layer_bytes, *[network.width * item] * last], parts
