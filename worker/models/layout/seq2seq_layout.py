"""
The layout of an exported translation model, from the inputs of its graphs: whether it has a cache, and of which shape.

Three layouts, as Optimum exports them:

    merged        encoder_model.onnx, decoder_model_merged.onnx                     input `use_cache_branch`
    two decoders  encoder_model.onnx, decoder_model.onnx, decoder_with_past_model.onnx
    no cache      encoder_model.onnx, decoder_model.onnx                            no `past_key_values.*` input

The graphs decide. config.json fills only what a graph leaves open; where both give a size and differ, a ModelError
names both. No graph is opened here.

Shapes: B rows · S source length · T target length · P past length · K key/value heads · H head size · D width ·
V vocabulary.
"""

import enum
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jobs.errors import ModelError
from worker.models.export_advice import ADD, EXPORT
from worker.models.file_names import DECODER, ENCODER, MERGED, WITH_PAST, graph_places
from worker.models.layout.configured_sizes import ConfiguredSize, agreed_axis_size, check_layers, float_type
from worker.models.layout.graph_signature import GraphSignature, Tensor
from worker.models.layout.seq2seq_config import named_size

_ENCODER_INPUTS = {"input_ids", "attention_mask"}
_DECODER_INPUTS = {
    "input_ids",
    "encoder_attention_mask",
    "encoder_hidden_states",
    "decoder_attention_mask",
    "use_cache_branch",
}
# The axes of an input that have to vary; of keys and values, batch and past.
_VARYING = {
    "input_ids": (0, 1),
    "attention_mask": (0, 1),
    "encoder_attention_mask": (0, 1),
    "encoder_hidden_states": (0, 1),
    "decoder_attention_mask": (0, 1),
}
_PAST_VARYING = (0, 2)
_PAST = re.compile(r"past_key_values\.(\d+)\.(decoder|encoder)\.(key|value)")


class LayoutKind(enum.StrEnum):
    """Which graphs there are, and which of them runs at which step."""

    MERGED = "merged"
    TWO_DECODERS = "two decoders"
    NO_CACHE = "no cache"


@dataclass(frozen=True, slots=True)
class CacheShape:
    """The past of a decoder: per layer a key and a value, (B, K, P, H) each."""

    num_layers: int
    num_heads: int  # K, of keys and values: fewer than the query heads where queries are grouped
    head_size: int  # H
    dtype: np.dtype[Any]

    def names(self, side: str) -> list[tuple[str, str]]:
        """(past, present) names of every key and value of `decoder` (self-attention) or `encoder` (cross-attention)."""
        return [
            (f"past_key_values.{layer}.{side}.{part}", f"present.{layer}.{side}.{part}")
            for layer in range(self.num_layers)
            for part in ("key", "value")
        ]


@dataclass(frozen=True, slots=True)
class Seq2SeqLayout:
    """The properties of a model's graphs that decide how a decoder calls them."""

    kind: LayoutKind
    cache: CacheShape | None  # None: the graph has none
    width: int  # D of the encoder's output
    vocab_size: int  # V of the logits
    hidden_dtype: np.dtype[Any]
    logits_dtype: np.dtype[Any]


def find_graphs(folder: Path) -> dict[str, Path]:
    """The files of the best layout in `folder` or its folder `onnx`, by name; raise ModelError where there is none."""
    found: set[str] = set()
    for path in graph_places(folder):
        files = {name: path / name for name in (ENCODER, MERGED, DECODER, WITH_PAST) if (path / name).is_file()}
        if ENCODER in files and MERGED in files:
            return {name: files[name] for name in (ENCODER, MERGED)}
        if ENCODER in files and DECODER in files:
            return files
        found |= files.keys()
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder")
    missing = [] if ENCODER in found else [ENCODER]
    if not found & {MERGED, DECODER}:
        missing.append(f"{MERGED} (or {DECODER})")
    others = sorted(file.name for file in folder.rglob("*.onnx"))
    raise ModelError(
        f"{folder} lacks {' and '.join(missing)} (graphs found: {', '.join(others) or 'none'}): build graphs of the "
        f"checkpoint with `{ADD} CHECKPOINT`, or export it with `{EXPORT}`"
    )


def read_layout(graphs: Mapping[str, GraphSignature], config: Mapping[str, Any]) -> Seq2SeqLayout:
    """The layout of these graphs (by file name); raise ModelError where no decoder can run it."""
    encoder, first = graphs[ENCODER], graphs[MERGED if MERGED in graphs else DECODER]
    cached = first if MERGED in graphs else graphs.get(WITH_PAST)
    _refuse_unknown(encoder, _ENCODER_INPUTS)
    for graph in (first, *([cached] if cached else [])):
        _refuse_unknown(graph, _DECODER_INPUTS, takes_past=True)
    if MERGED in graphs and "use_cache_branch" not in first.inputs:
        raise ModelError(f"{first.file} has no input use_cache_branch: it is not a merged decoder; export it again")
    if MERGED not in graphs and (odd := [name for name in first.inputs if _PAST.fullmatch(name)]):
        raise ModelError(
            f"{first.file} requires {odd[0]} at its first step: it is a decoder with past under the name of a decoder "
            "without; export the model again"
        )
    for graph in (encoder, first, *([cached] if cached else [])):
        _check_ids(graph)
        _check_axes(graph, takes_one_token=graph is not first and graph is cached)
    cache = _read_cache(first, cached, config) if cached else None
    hidden = _output(encoder, "last_hidden_state")
    logits = _output(first, "logits")
    target_vocab = "decoder_vocab_size" if config.get("decoder_vocab_size") is not None else "vocab_size"
    return Seq2SeqLayout(
        kind=LayoutKind.MERGED if MERGED in graphs else LayoutKind.TWO_DECODERS if cached else LayoutKind.NO_CACHE,
        cache=cache,
        width=_size(encoder, hidden, -1, config, "d_model"),
        vocab_size=_size(first, logits, -1, config, target_vocab),
        hidden_dtype=float_type(encoder, hidden),
        logits_dtype=float_type(first, logits),
    )


def _read_cache(first: GraphSignature, cached: GraphSignature, config: Mapping[str, Any]) -> CacheShape:
    """The shape of the past, from the inputs of the graph that takes one."""
    layers = {int(match[1]) for name in cached.inputs if (match := _PAST.fullmatch(name))}
    if not layers:
        raise ModelError(f"{cached.file} has no input past_key_values.*: it is not a decoder with past")
    check_layers(cached, layers, ConfiguredSize("config.json", *named_size(config, "num_layers")))
    example = cached.inputs.get("past_key_values.0.decoder.key")
    if example is None:
        raise ModelError(f"{cached.file} lacks the input past_key_values.0.decoder.key")
    heads, width = named_size(config, "num_heads"), config.get("d_model")
    if (grouped := config.get("num_key_value_heads")) is not None:
        heads = "num_key_value_heads", grouped
    size = named_size(config, "head_size")
    if size[1] is None and width is not None and (number := named_size(config, "num_heads")[1]) is not None:
        size = f"d_model / {named_size(config, 'num_heads')[0]}", width // number
    shape = CacheShape(
        num_layers=len(layers),
        num_heads=agreed_axis_size(cached, example, 1, ConfiguredSize("config.json", *heads)),
        head_size=agreed_axis_size(cached, example, 3, ConfiguredSize("config.json", *size)),
        dtype=float_type(cached, example),
    )
    for side, source in (("decoder", cached), ("encoder", first)):
        for past, present in shape.names(side):
            if past not in cached.inputs:
                raise ModelError(f"{cached.file} lacks the input {past}, though it has past_key_values.0.decoder.key")
            for graph in {first.file: first, source.file: source}.values():
                if present not in graph.outputs:
                    raise ModelError(
                        f"{graph.file} lacks the output {present} that {cached.file} takes as {past}: export both "
                        "together, with `--task text2text-generation-with-past`"
                    )
    return shape


def _refuse_unknown(graph: GraphSignature, known: Collection[str], *, takes_past: bool = False) -> None:
    for name, tensor in sorted(graph.inputs.items()):
        if name not in known and not (takes_past and _PAST.fullmatch(name)):
            raise ModelError(
                f"{graph.file} requires the unknown input {name} {list(tensor.shape)} (known are "
                f"{', '.join(sorted(known))}): export it with `{EXPORT}`"
            )


def _check_ids(graph: GraphSignature) -> None:
    for name, tensor in graph.inputs.items():
        if name in ("input_ids", "attention_mask", "encoder_attention_mask", "decoder_attention_mask") and (
            tensor.type != "tensor(int64)"
        ):
            raise ModelError(f"{graph.file} takes {name} as {tensor.type}; only tensor(int64) is supported")
    if "input_ids" not in graph.inputs:
        raise ModelError(f"{graph.file} lacks the input input_ids")


def _check_axes(graph: GraphSignature, *, takes_one_token: bool) -> None:
    """Raise ModelError for a graph that was exported for one batch size or one length."""
    for name, tensor in graph.inputs.items():
        varying = _PAST_VARYING if _PAST.fullmatch(name) else _VARYING.get(name, ())
        fixed = [axis for axis in varying if axis < len(tensor.shape) and isinstance(tensor.shape[axis], int)]
        if takes_one_token and name == "input_ids" and tensor.shape[1] == 1:
            fixed = [axis for axis in fixed if axis != 1]  # a later step has one token, and every exporter fixes that
        if fixed:
            which = " and ".join("batch" if axis == 0 else "length" for axis in fixed)
            raise ModelError(
                f"{graph.file} takes {name} as {list(tensor.shape)}, where {which} cannot vary: export it with dynamic "
                f'axes ({{"{name}": {{{", ".join(f"{axis}: ..." for axis in varying)}}}}}), as `{EXPORT}` does'
            )


def _output(graph: GraphSignature, name: str) -> Tensor:
    if name not in graph.outputs:
        raise ModelError(f"{graph.file} lacks the output {name} (it has {', '.join(graph.outputs)})")
    return graph.outputs[name]


def _size(graph: GraphSignature, tensor: Tensor, axis: int, config: Mapping[str, Any], key: str) -> int:
    return agreed_axis_size(graph, tensor, axis, ConfiguredSize("config.json", key, config.get(key)))
