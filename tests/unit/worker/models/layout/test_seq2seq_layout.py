"""The layout of seq2seq graphs, read from the inputs and outputs of made-up graphs."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import ModelError
from worker.models.file_names import DECODER, ENCODER, MERGED, WITH_PAST
from worker.models.layout.graph_signature import GraphSignature, Tensor
from worker.models.layout.seq2seq_layout import CacheShape, LayoutKind, find_graphs, read_layout

CONFIG = {"decoder_layers": 2, "decoder_attention_heads": 8, "d_model": 64, "vocab_size": 100}

IDS = "tensor(int64)"

FLOAT = "tensor(float)"


def graph(file: str, inputs: list[Tensor], outputs: list[Tensor]) -> GraphSignature:
    return GraphSignature(file, {one.name: one for one in inputs}, {one.name: one for one in outputs})


def encoder() -> GraphSignature:
    return graph(
        ENCODER,
        [Tensor("input_ids", IDS, ("B", "S")), Tensor("attention_mask", IDS, ("B", "S"))],
        [Tensor("last_hidden_state", FLOAT, ("B", "S", 64))],
    )


def keys_and_values(
    name: str, heads: Any = 8, size: Any = 8, layers: Any = range(2), sides: Any = ("decoder", "encoder")
) -> list[Tensor]:
    return [
        Tensor(f"{name}.{layer}.{side}.{part}", FLOAT, ("B", heads, "P", size))
        for layer in layers
        for side in sides
        for part in ("key", "value")
    ]


def typed(type_: str) -> list[Tensor]:
    return [dataclasses.replace(one, type=type_) for one in keys_and_values("past_key_values")]


def decoder(
    file: str = MERGED, past: list[Tensor] | None = None, present: list[Tensor] | None = None
) -> GraphSignature:
    inputs = [
        Tensor("input_ids", IDS, ("B", "T")),
        Tensor("encoder_attention_mask", IDS, ("B", "S")),
        Tensor("encoder_hidden_states", FLOAT, ("B", "S", 64)),
    ]
    if file == MERGED:
        inputs.append(Tensor("use_cache_branch", "tensor(bool)", (1,)))
    if file != DECODER:
        inputs += keys_and_values("past_key_values") if past is None else past
    outputs = [Tensor("logits", FLOAT, ("B", "T", 100))]
    return graph(file, inputs, outputs + (keys_and_values("present") if present is None else present))


def merged(**changes: Any) -> dict[str, GraphSignature]:
    return {ENCODER: encoder(), MERGED: decoder(**changes)}


def two(**changes: Any) -> dict[str, GraphSignature]:
    return {ENCODER: encoder(), DECODER: decoder(DECODER), WITH_PAST: decoder(WITH_PAST, **changes)}


def without(graphs: dict[str, GraphSignature], file: str, name: str) -> dict[str, GraphSignature]:
    """The same graphs, except that one lacks an input or output."""
    inputs, outputs = (
        {key: tensor for key, tensor in some.items() if key != name}
        for some in (graphs[file].inputs, graphs[file].outputs)
    )
    return graphs | {file: GraphSignature(file, inputs, outputs)}


def with_input(graphs: dict[str, GraphSignature], file: str, tensor: Tensor) -> dict[str, GraphSignature]:
    return graphs | {file: dataclasses.replace(graphs[file], inputs={**graphs[file].inputs, tensor.name: tensor})}


def fixed(graphs: dict[str, GraphSignature], file: str, name: str, shape: tuple[Any, ...]) -> dict[str, GraphSignature]:
    """The same graphs, except that one input has another shape."""
    return with_input(graphs, file, dataclasses.replace(graphs[file].inputs[name], shape=shape))


@pytest.mark.parametrize(
    ("file", "name", "shape", "what"),
    [
        (ENCODER, "input_ids", (1, "S"), "batch"),
        (ENCODER, "input_ids", ("B", 128), "length"),
        (ENCODER, "attention_mask", (1, 128), "batch and length"),
        (MERGED, "input_ids", ("B", 1), "length"),
        (MERGED, "encoder_hidden_states", ("B", 128, 64), "length"),
        (MERGED, "past_key_values.1.decoder.key", (1, 8, "P", 8), "batch"),
        (MERGED, "past_key_values.0.encoder.value", ("B", 8, 16, 8), "length"),
    ],
)
def test_an_axis_that_cannot_vary_is_refused_with_how_to_export(
    file: str, name: str, shape: tuple[Any, ...], what: str
) -> None:
    expected = rf"{file} takes {name} as \[.*\], where {what} cannot vary: export it with dynamic axes .*optimum-cli"

    with pytest.raises(ModelError, match=expected):
        read_layout(fixed(merged(), file, name, shape), CONFIG)


def test_later_steps_may_be_fixed_to_one_token() -> None:
    assert read_layout(fixed(two(), WITH_PAST, "input_ids", ("B", 1)), CONFIG).kind is LayoutKind.TWO_DECODERS
    with pytest.raises(ModelError, match="length cannot vary"):
        read_layout(fixed(two(), DECODER, "input_ids", ("B", 1)), CONFIG)


def test_the_merged_layout_is_recognized_by_use_cache_branch() -> None:
    layout = read_layout(merged(), CONFIG)

    assert layout.kind is LayoutKind.MERGED
    assert layout.cache == CacheShape(num_layers=2, num_heads=8, head_size=8, dtype=np.dtype(np.float32))
    assert (layout.width, layout.vocab_size) == (64, 100)


def test_the_layout_of_two_decoders_is_recognized_by_its_two_files() -> None:
    layout = read_layout(two(present=keys_and_values("present", sides=["decoder"])), CONFIG)

    assert layout.kind is LayoutKind.TWO_DECODERS
    assert layout.cache is not None


def test_a_decoder_alone_has_no_cache() -> None:
    layout = read_layout({ENCODER: encoder(), DECODER: decoder(DECODER, present=[])}, CONFIG)

    assert (layout.kind, layout.cache) == (LayoutKind.NO_CACHE, None)


def test_heads_are_read_from_the_past_and_not_from_the_query_heads() -> None:
    grouped = merged(past=keys_and_values("past_key_values", heads=2))

    layout = read_layout(grouped, CONFIG | {"num_key_value_heads": 2})

    assert layout.cache is not None
    assert layout.cache.num_heads == 2


def test_the_past_may_be_in_half_precision() -> None:
    layout = read_layout(merged(past=typed("tensor(float16)")), CONFIG)

    assert layout.cache is not None
    assert layout.cache.dtype == np.float16


def test_the_configuration_fills_what_a_graph_leaves_open() -> None:
    open_graph = merged(past=keys_and_values("past_key_values", heads="heads", size="size"))

    layout = read_layout(open_graph, CONFIG)

    assert layout.cache is not None
    assert (layout.cache.num_heads, layout.cache.head_size) == (8, 8)


def test_a_size_that_neither_graph_nor_configuration_gives_is_refused() -> None:
    open_graph = merged(past=keys_and_values("past_key_values", heads="heads"))

    with pytest.raises(ModelError, match=r"decoder_model_merged\.onnx .*config\.json"):
        read_layout(open_graph, {})


def test_the_graphs_need_no_configuration() -> None:
    assert read_layout(merged(), {}) == read_layout(merged(), CONFIG)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"decoder_layers": 6}, ["2 layers", "decoder_layers = 6"]),
        ({"decoder_attention_heads": 4}, ["['B', 8, 'P', 8]", "decoder_attention_heads = 4"]),
        ({"num_key_value_heads": 4}, ["['B', 8, 'P', 8]", "num_key_value_heads = 4"]),
        ({"head_dim": 16}, ["['B', 8, 'P', 8]", "head_dim = 16"]),
        ({"d_model": 128}, ["d_model"]),
        ({"vocab_size": 90}, ["['B', 'T', 100]", "vocab_size = 90"]),
        ({"vocab_size": 90, "decoder_vocab_size": 80}, ["decoder_vocab_size = 80"]),
    ],
)
def test_a_conflict_between_graph_and_configuration_names_both(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ModelError) as caught:
        read_layout(merged(), CONFIG | changes)

    for word in [*words, ".onnx", "config.json"]:
        assert word in str(caught.value)


def test_a_separate_target_vocabulary_has_its_own_size() -> None:
    layout = read_layout(merged(), CONFIG | {"vocab_size": 90, "decoder_vocab_size": 100})

    assert layout.vocab_size == 100


@pytest.mark.parametrize("file", [ENCODER, DECODER, WITH_PAST])
def test_an_unknown_required_input_is_named(file: str) -> None:
    graphs = with_input(two(), file, Tensor("pixel_values", FLOAT, ("B", 3)))

    with pytest.raises(ModelError, match=rf"{file} .*pixel_values \['B', 3\]"):
        read_layout(graphs, CONFIG)


def test_a_mask_of_the_target_is_recognized() -> None:
    graphs = with_input(merged(), MERGED, Tensor("decoder_attention_mask", IDS, ("B", "P + T")))

    assert read_layout(graphs, CONFIG).kind is LayoutKind.MERGED


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        (without(merged(), MERGED, "past_key_values.1.encoder.value"), "the input past_key_values.1.encoder.value"),
        (without(merged(), MERGED, "present.1.decoder.key"), "lacks the output present.1.decoder.key"),
        (without(two(), DECODER, "present.0.encoder.key"), "decoder_model.onnx lacks the output present.0.encoder.key"),
        (without(two(), DECODER, "present.0.decoder.key"), "decoder_model.onnx lacks the output present.0.decoder.key"),
        (without(merged(), MERGED, "logits"), "lacks the output logits"),
        (without(merged(), ENCODER, "last_hidden_state"), "lacks the output last_hidden_state"),
        (without(merged(), MERGED, "input_ids"), "lacks the input input_ids"),
        (without(merged(), MERGED, "use_cache_branch"), "not a merged decoder"),
        (merged(past=keys_and_values("past_key_values", layers=[0, 2])), "layer 2, but none for layer 1"),
        (two(past=[]), "not a decoder with past"),
        ({ENCODER: encoder(), DECODER: decoder(WITH_PAST)}, "a decoder with past under the name of a decoder without"),
        (with_input(merged(), MERGED, Tensor("input_ids", "tensor(int32)", ("B", "T"))), "input_ids as tensor.int32."),
        (merged(past=typed("tensor(bfloat16)")), "as tensor.bfloat16."),
    ],
)  # fmt: skip
def test_a_graph_that_cannot_be_served_is_refused_with_the_reason(
    graphs: dict[str, GraphSignature], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        read_layout(graphs, CONFIG)


def touch(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def test_the_merged_decoder_is_preferred(tmp_path: Path) -> None:
    folder = touch(tmp_path, ENCODER, MERGED, DECODER, WITH_PAST)

    assert find_graphs(folder) == {ENCODER: folder / ENCODER, MERGED: folder / MERGED}


def test_graphs_may_be_in_a_folder_of_their_own(tmp_path: Path) -> None:
    touch(tmp_path / "onnx", ENCODER, MERGED)

    assert find_graphs(tmp_path)[MERGED] == tmp_path / "onnx" / MERGED


@pytest.mark.parametrize(
    ("there", "missing"),
    [
        ([], r"lacks encoder_model.onnx and decoder_model_merged.onnx \(or decoder_model.onnx\) \(graphs found: none"),
        ([DECODER], r"lacks encoder_model.onnx \(graphs found: decoder_model.onnx"),
        ([MERGED], r"lacks encoder_model.onnx \("),
        ([ENCODER, WITH_PAST], r"lacks decoder_model_merged.onnx \(or decoder_model.onnx\) \(graphs"),
        (["model_quantized.onnx"], r"graphs found: model_quantized.onnx.*optimum-cli export onnx"),
    ],
)
def test_missing_files_are_named_with_what_to_do(tmp_path: Path, there: list[str], missing: str) -> None:
    with pytest.raises(ModelError, match=missing):
        find_graphs(touch(tmp_path, *there))


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere .*folder"):
        find_graphs(tmp_path / "nowhere")
