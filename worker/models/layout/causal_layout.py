"""
The layout of an exported causal language model, from the inputs of its graph: whether it has a cache, of which shape,
and which other inputs it takes.

Known exports, one file each:

    Optimum            model.onnx, task text-generation-with-past or text-generation; positions are an input, or not
    transformers.js    onnx/model.onnx, the same, and an input num_logits_to_keep
    onnxruntime-genai  model.onnx beside genai_config.json, GroupQueryAttention inside, the head size left open

The graph decides. config.json (or genai_config.json) fills only what the graph leaves open; where both give the number
of layers or the size of the vocabulary and differ, a ModelError names both. The heads of the cache and their size come
from the graph alone: Falcon-7B's config.json calls the query heads `num_key_value_heads`, and DeepSeek-V3's `head_dim`
is only the rotated part of a head. No graph is opened here.

Shapes: B rows · S length · P past length · L layers · K key/value heads · H head size · V vocabulary.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jobs.errors import ModelError
from worker.models.export_advice import EXPORT_CAUSAL
from worker.models.file_names import CAUSAL_GRAPH, graph_places
from worker.models.layout.causal_config import CausalConfig, genai_filename
from worker.models.layout.configured_sizes import ConfiguredSize, agreed_axis_size, axis_size, check_layers, float_type
from worker.models.layout.graph_signature import GraphSignature, Tensor

# Ids are int64. The last is transformers.js's: the number of logits to compute, from the end; 0: all.
IDS, MASK, POSITIONS, NUM_LOGITS = "input_ids", "attention_mask", "position_ids", "num_logits_to_keep"
_RANKS = {IDS: 2, MASK: 2, POSITIONS: 2, NUM_LOGITS: None}  # None: any rank; it is one number
LOGITS = "logits"
# Names of the past of a layer, with possible names of its present: of Optimum and genai, then of torch exports
# with a flat list of arguments (phi-2 as onnxruntime's own scripts wrote it).
_NAMES = (
    ("past_key_values.{layer}.{part}", ("present.{layer}.{part}", "present_key_values.{layer}.{part}")),
    ("past_{part}_{layer}", ("present_{part}_{layer}",)),
)
_PARTS = ("key", "value")
_STACKED = re.compile(r"past_(\d+)")  # keys and values of a layer in one tensor, [2, batch, heads, past, size]
_PAST = re.compile(r"past_key_values\.(\d+)\.(?:key|value)|past_(?:key|value)_(\d+)")


@dataclass(frozen=True, slots=True)
class CausalPast:
    """The past of a causal graph: per layer a key and a value, (B, K, P, H) each."""

    num_layers: int  # L
    num_heads: int  # K, of keys and values: fewer than the query heads where queries are grouped
    head_size: int  # H of a key
    value_size: int  # H of a value: smaller in the latent attention of DeepSeek, else the same
    dtype: np.dtype[Any]
    names: tuple[tuple[str, str], ...]  # (past, present) of each key and value, layer by layer

    @property
    def sizes(self) -> tuple[int, ...]:
        """H of each of the `names`."""
        return (self.head_size, self.value_size) * self.num_layers

    @property
    def position_bytes(self) -> int:
        """Memory of the keys and values of one token."""
        return sum(self.sizes) * self.num_heads * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class CausalLayout:
    """The properties of a model's graph that decide how a reader calls it."""

    cache: CausalPast | None  # None: the graph has none
    vocab_size: int  # V of the logits
    logits_dtype: np.dtype[Any]
    has_mask: bool
    has_positions: bool
    num_logits_rank: int | None  # rank of the input NUM_LOGITS; None: the graph has none


def find_causal_graph(folder: Path) -> Path:
    """The graph in `folder` or its `onnx` folder; raise ModelError where there is none."""
    name = genai_filename(folder) or CAUSAL_GRAPH
    for file in (path / name for path in graph_places(folder)):
        if file.is_file():
            return file
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder")
    others = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.onnx"))
    raise ModelError(
        f"{folder} lacks {name} (graphs found: {', '.join(others) or 'none'}): export the model with `{EXPORT_CAUSAL}`"
    )


def read_causal_layout(graph: GraphSignature, config: CausalConfig) -> CausalLayout:
    """The layout of a graph; raise ModelError where no reader can run it."""
    for name, tensor in sorted(graph.inputs.items()):
        if _STACKED.fullmatch(name):
            raise ModelError(
                f"{graph.file} takes {name} {list(tensor.shape)}, the keys and values of a layer in one tensor, as "
                "onnxruntime's GPT-2 converter writes them; supported are past_key_values.N.key and .value: export the "
                f"checkpoint again with `{EXPORT_CAUSAL}`"
            )
        if name not in _RANKS and not _PAST.fullmatch(name):
            raise ModelError(
                f"{graph.file} requires the unknown input {name} {list(tensor.shape)} (known are "
                f"{', '.join(sorted(_RANKS))} and the past of keys and values): export it with `{EXPORT_CAUSAL}`"
            )
    if IDS not in graph.inputs:
        raise ModelError(f"{graph.file} lacks the input {IDS} (it has {', '.join(sorted(graph.inputs))})")
    for tensor in graph.inputs.values():
        _check_input(graph, tensor)
    if LOGITS not in graph.outputs:
        raise ModelError(
            f"{graph.file} lacks the output {LOGITS} (it has {', '.join(graph.outputs)}): export it with "
            f"`{EXPORT_CAUSAL}`"
        )
    logits = graph.outputs[LOGITS]
    if len(logits.shape) != 3 or isinstance(logits.shape[1], int):
        raise ModelError(
            f"{graph.file} has {LOGITS} as {list(logits.shape)}, and the logits of every token are needed, "
            "[batch, length, vocabulary]: export it without pruning its head"
        )
    return CausalLayout(
        cache=_read_cache(graph, config) if any(map(_PAST.fullmatch, graph.inputs)) else None,
        vocab_size=agreed_axis_size(graph, logits, 2, _configured(config, "vocab_size")),
        logits_dtype=float_type(graph, logits),
        has_mask=MASK in graph.inputs,
        has_positions=POSITIONS in graph.inputs,
        num_logits_rank=len(graph.inputs[NUM_LOGITS].shape) if NUM_LOGITS in graph.inputs else None,
    )


def _read_cache(graph: GraphSignature, config: CausalConfig) -> CausalPast:
    """The shape of the past, from the inputs themselves."""
    matches = [match for name in graph.inputs if (match := _PAST.fullmatch(name))]
    layers = {int(match[1] or match[2]) for match in matches}
    check_layers(graph, layers, _configured(config, "num_hidden_layers"))
    pasts, presents = _NAMES[0] if _NAMES[0][0].format(layer=0, part="key") in graph.inputs else _NAMES[1]
    names = []
    for layer in range(len(layers)):
        for part in _PARTS:
            past = pasts.format(layer=layer, part=part)
            if past not in graph.inputs:
                raise ModelError(f"{graph.file} has a past of {len(layers)} layers, but lacks the input {past}")
            candidates = [present.format(layer=layer, part=part) for present in presents]
            present = next((name for name in candidates if name in graph.outputs), None)
            if present is None:
                raise ModelError(
                    f"{graph.file} takes the input {past}, but lacks the output {candidates[0]} for the next step: "
                    f"export it with `{EXPORT_CAUSAL}`"
                )
            names.append((past, present))
    first, value, *others = (graph.inputs[past] for past, _ in names)
    for number, other in enumerate([value, *others], 1):
        alike = (value if number % 2 else first).shape
        if other.type != first.type or _differ(other.shape[1], first.shape[1]) or _differ(other.shape[3], alike[3]):
            raise ModelError(
                f"{graph.file} takes {first.name} as {first.type} {list(first.shape)} and {other.name} as {other.type} "
                f"{list(other.shape)}; supported are caches whose layers are all alike"
            )
    return CausalPast(
        num_layers=len(layers),
        num_heads=axis_size(graph, first, 1, _configured(config, "num_key_value_heads")),
        head_size=_head_size(graph, first, config),
        value_size=_head_size(graph, value, config),
        dtype=float_type(graph, first),
        names=tuple(names),
    )


def _head_size(graph: GraphSignature, part: Tensor, config: CausalConfig) -> int:
    """H of keys or of values: of the graph, else `head_dim`, else the width divided among the heads."""
    if isinstance(part.shape[3], int) or config.head_dim or not (config.hidden_size and config.num_attention_heads):
        return axis_size(graph, part, 3, _configured(config, "head_dim"))
    return config.hidden_size // config.num_attention_heads


def _differ(axis: int | str | None, other: int | str | None) -> bool:
    """Whether two axes cannot be equally long."""
    return isinstance(axis, int) and isinstance(other, int) and axis != other


def _check_input(graph: GraphSignature, tensor: Tensor) -> None:
    """Raise ModelError for an input of another shape or type, or exported for one batch size or one length."""
    is_past = _PAST.fullmatch(tensor.name) is not None
    rank = 4 if is_past else _RANKS[tensor.name]
    if rank is not None and len(tensor.shape) != rank:
        raise ModelError(
            f"{graph.file} takes {tensor.name} as {list(tensor.shape)}; supported is "
            f"{'[batch, heads, past, size]' if is_past else '[batch, length]'}: export it with `{EXPORT_CAUSAL}`"
        )
    if not is_past and tensor.type != "tensor(int64)":
        raise ModelError(f"{graph.file} takes {tensor.name} as {tensor.type}; only tensor(int64) is supported")
    varying = (0, 2) if is_past else (0, 1) if rank else ()
    if fixed := [axis for axis in varying if isinstance(tensor.shape[axis], int)]:
        which = " and ".join("batch" if axis == 0 else "length" for axis in fixed)
        raise ModelError(
            f"{graph.file} takes {tensor.name} as {list(tensor.shape)}, where {which} cannot vary: export it with "
            f"dynamic axes, as `{EXPORT_CAUSAL}` does"
        )


def _configured(config: CausalConfig, key: str) -> ConfiguredSize:
    return ConfiguredSize(config.file, key, getattr(config, key))
