"""The layout of causal graphs, read from the inputs and outputs of made-up graphs."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import ModelError
from worker.models.layout.causal_config import CausalConfig, genai_filename
from worker.models.layout.causal_layout import CausalPast, find_causal_graph, read_causal_layout
from worker.models.layout.graph_signature import GraphSignature, Tensor

IDS, FLOAT, HALF = "tensor(int64)", "tensor(float)", "tensor(float16)"
# Qwen2.5-0.5B: 14 query heads, K = 2, H = 64.
CONFIG = CausalConfig(
    file="config.json",
    vocab_size=151_936,
    num_hidden_layers=2,
    num_attention_heads=14,
    num_key_value_heads=2,
    hidden_size=896,
)
NOTHING = CausalConfig(file="config.json")
OPTIMUM = "past_key_values.{layer}.{part}", "present.{layer}.{part}"


def cache(name: str, *, kind: str = FLOAT, heads: Any = 2, size: Any = 64, layers: Any = range(2)) -> list[Tensor]:
    return [
        Tensor(name.format(layer=layer, part=part), kind, ("B", heads, "P", size))
        for layer in layers
        for part in ("key", "value")
    ]


def graph(*more: Tensor, past: list[Tensor] | None = None, present: list[Tensor] | None = None) -> GraphSignature:
    """The inputs and outputs that Optimum exports; `more` adds tensors, or replaces those of the same name."""
    inputs = [
        Tensor("input_ids", IDS, ("B", "S")),
        Tensor("attention_mask", IDS, ("B", "T")),
        *(cache(OPTIMUM[0]) if past is None else past),
    ]
    outputs = [
        Tensor("logits", FLOAT, ("B", "S", 151_936)),
        *(cache(OPTIMUM[1]) if present is None else present),
    ]
    named = {one.name: one for one in inputs}, {one.name: one for one in outputs}
    for tensor in more:
        named[tensor.name in named[1]][tensor.name] = tensor
    return GraphSignature("model.onnx", *named)


def without(whole: GraphSignature, name: str) -> GraphSignature:
    return dataclasses.replace(
        whole,
        inputs={key: one for key, one in whole.inputs.items() if key != name},
        outputs={key: one for key, one in whole.outputs.items() if key != name},
    )


def test_the_number_of_key_heads_is_read_from_the_graph_and_is_not_that_of_the_queries() -> None:
    layout = read_causal_layout(graph(), CONFIG)

    assert layout.cache is not None
    assert (layout.cache.num_layers, layout.cache.num_heads, layout.cache.head_size) == (2, 2, 64)
    assert layout.cache.dtype == np.float32
    assert layout.cache.names == tuple(
        (f"past_key_values.{layer}.{part}", f"present.{layer}.{part}") for layer in (0, 1) for part in ("key", "value")
    )
    assert layout.cache.position_bytes == 2 * 2 * 2 * 64 * 4
    assert layout.vocab_size == 151_936
    assert layout.logits_dtype == np.float32
    assert (layout.has_mask, layout.has_positions, layout.num_logits_rank) == (True, False, None)


def test_a_graph_with_fixed_sizes_needs_no_configuration() -> None:
    assert read_causal_layout(graph(), NOTHING) == read_causal_layout(graph(), CONFIG)


def test_inputs_beside_the_ids_are_recognized() -> None:
    layout = read_causal_layout(
        without(
            graph(Tensor("position_ids", IDS, ("B", "S")), Tensor("num_logits_to_keep", IDS, ()), past=[], present=[]),
            "attention_mask",
        ),
        CONFIG,
    )

    assert layout.cache is None
    assert (layout.has_mask, layout.has_positions, layout.num_logits_rank) == (False, True, 0)


def test_half_precision_is_recognized_by_the_types() -> None:
    layout = read_causal_layout(
        graph(
            Tensor("logits", HALF, ("B", "S", 151_936)),
            past=cache(OPTIMUM[0], kind=HALF),
            present=cache(OPTIMUM[1], kind=HALF),
        ),
        CONFIG,
    )

    assert layout.cache is not None
    assert (layout.cache.dtype, layout.logits_dtype) == (np.float16, np.float16)


@pytest.mark.parametrize(
    "names",
    [
        OPTIMUM,
        ("past_key_values.{layer}.{part}", "present_key_values.{layer}.{part}"),
        ("past_{part}_{layer}", "present_{part}_{layer}"),
    ],
)
def test_every_naming_scheme_of_a_cache_is_recognized(names: tuple[str, str]) -> None:
    layers = range(12)  # layer 10 comes after layer 9, not after layer 1
    layout = read_causal_layout(
        graph(past=cache(names[0], layers=layers), present=cache(names[1], layers=layers)), NOTHING
    )

    assert layout.cache is not None
    assert layout.cache.names == tuple(
        (names[0].format(layer=layer, part=part), names[1].format(layer=layer, part=part))
        for layer in layers
        for part in ("key", "value")
    )


@pytest.mark.parametrize(
    ("config", "size"),
    [
        (dataclasses.replace(CONFIG, head_dim=128), 128),
        (CONFIG, 64),
        (dataclasses.replace(CONFIG, head_dim=96, hidden_size=None), 96),
    ],
)
def test_a_head_size_that_the_graph_leaves_open_comes_from_the_configuration(config: CausalConfig, size: int) -> None:
    """onnxruntime-genai's builder leaves it open: [batch, 2, past, kv_cache_dim]."""
    layout = read_causal_layout(graph(past=cache(OPTIMUM[0], size="kv_cache_dim")), config)

    assert layout.cache == CausalPast(
        2, 2, size, size, np.dtype(np.float32), layout.cache.names if layout.cache else ()
    )


def test_the_head_size_may_differ_from_the_width_divided_by_the_heads() -> None:
    layout = read_causal_layout(graph(past=cache(OPTIMUM[0], size=128)), CONFIG)

    assert layout.cache is not None
    assert layout.cache.head_size == 128


@pytest.mark.parametrize("change", [{"num_key_value_heads": 14}, {"head_dim": 96}])
def test_head_counts_and_sizes_of_the_graph_take_precedence_over_the_configuration(change: dict[str, int]) -> None:
    """Falcon-7B's `num_key_value_heads` are its query heads; DeepSeek-V3's `head_dim` is a part of a head."""
    assert read_causal_layout(graph(), dataclasses.replace(CONFIG, **change)) == read_causal_layout(graph(), CONFIG)


def test_keys_and_values_may_have_heads_of_different_sizes() -> None:
    """DeepSeek-V3 has keys of 192 and values of 128."""
    past = [tensor for layer in (0, 1) for tensor in uneven(layer)]

    cache = read_causal_layout(graph(past=past), CONFIG).cache

    assert cache is not None
    assert (cache.head_size, cache.value_size, cache.sizes) == (192, 128, (192, 128, 192, 128))
    assert cache.position_bytes == 2 * (192 + 128) * 2 * 4
    with pytest.raises(ModelError, match=r"past_key_values\.1\.key.*alike"):
        read_causal_layout(graph(past=[*past[:2], *uneven(1, 128, 192)]), CONFIG)


def uneven(layer: int, *sizes: int) -> list[Tensor]:
    names = (OPTIMUM[0].format(layer=layer, part=part) for part in ("key", "value"))
    return [Tensor(name, FLOAT, ("B", 2, "P", size)) for name, size in zip(names, sizes or (192, 128), strict=True)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": 24}, "for 2 layers, but config.json says num_hidden_layers = 24"),
        ({"vocab_size": 99}, "logits as ['B', 'S', 151936], but config.json says vocab_size = 99"),
    ],
)
def test_a_conflict_names_the_graph_and_the_configuration(change: dict[str, int], message: str) -> None:
    with pytest.raises(ModelError) as error:
        read_causal_layout(graph(), dataclasses.replace(CONFIG, **change))

    assert str(error.value).startswith("model.onnx ")
    assert message in str(error.value)


OPEN = cache(OPTIMUM[0], heads="K")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (graph(Tensor("use_cache_branch", "tensor(bool)", (1,))), "requires the unknown input use_cache_branch"),
        (graph(Tensor("past_conv.0", FLOAT, ("B", 8, 3))), "requires the unknown input past_conv.0"),
        (graph(Tensor("past_0", FLOAT, (2, "B", 2, "P", 64)), past=[]), "onnxruntime's GPT-2 converter writes"),
        (graph(Tensor("token_type_ids", IDS, ("B", "S"))), "requires the unknown input"),
        (without(graph(), "input_ids"), "lacks the input input_ids"),
        (without(graph(), "logits"), "lacks the output logits"),
        (without(graph(), "present.1.value"), "lacks the output present.1.value"),
        (without(graph(), "past_key_values.1.value"), "lacks the input past_key_values.1.value"),
        (graph(past=cache(OPTIMUM[0], layers=(0, 2))), "for layer 2, but none for layer 1"),
        (graph(past=OPEN), "nor config.json (num_key_value_heads) gives the size"),  # not the 14 query heads
        (graph(past=cache(OPTIMUM[0], size="H")), "nor config.json (head_dim) gives the size"),
        (graph(Tensor("logits", FLOAT, ("B", "S", "V"))), "nor config.json (vocab_size)"),
        (graph(Tensor("logits", FLOAT, ("B", 1, 151_936))), "the logits of every token are needed"),
        (graph(Tensor("logits", FLOAT, ("B", 151_936))), "the logits of every token are needed"),
        (graph(Tensor("logits", "tensor(bfloat16)", ("B", "S", 9))), "logits as tensor(bfloat16); supported are"),
        (graph(past=cache(OPTIMUM[0], kind="tensor(int8)")), "past_key_values.0.key as tensor(int8)"),
        (graph(past=cache(OPTIMUM[0], size=64)[:2] + cache(OPTIMUM[0], size=32)[2:]), "layers are all alike"),
        (graph(Tensor("input_ids", "tensor(int32)", ("B", "S"))), "only tensor(int64) is supported"),
        (graph(Tensor("input_ids", IDS, (1, "S"))), "where batch cannot vary"),
        (graph(Tensor("input_ids", IDS, ("B", 128))), "where length cannot vary"),
        (graph(Tensor("attention_mask", IDS, ("B", 1, "S", "T"))), "supported is [batch, length]"),
        (
            graph(past=[Tensor("past_key_values.0.key", FLOAT, (2, "B", 2, "P", 64))]),
            "supported is [batch, heads, past",
        ),
    ],
)
def test_a_graph_that_cannot_be_served_is_refused_by_name(broken: GraphSignature, message: str) -> None:
    config = dataclasses.replace(NOTHING, num_attention_heads=14)

    with pytest.raises(ModelError) as error:
        read_causal_layout(broken, config)

    assert "model.onnx" in str(error.value)
    assert message in str(error.value)


def test_the_graph_is_found_beside_its_configuration_or_in_the_onnx_folder(tmp_path: Path) -> None:
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model.onnx").touch()
    assert find_causal_graph(tmp_path) == tmp_path / "onnx" / "model.onnx"

    (tmp_path / "model.onnx").touch()
    assert find_causal_graph(tmp_path) == tmp_path / "model.onnx"

    (tmp_path / "genai_config.json").write_text(json.dumps({"model": {"decoder": {"filename": "decoder.onnx"}}}))
    (tmp_path / "decoder.onnx").touch()
    assert find_causal_graph(tmp_path) == tmp_path / "decoder.onnx"


def test_a_missing_graph_is_reported_with_the_graphs_that_were_found(tmp_path: Path) -> None:
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "decoder_model_merged.onnx").touch()

    with pytest.raises(ModelError, match=r"lacks model\.onnx .*onnx/decoder_model_merged\.onnx"):
        find_causal_graph(tmp_path)
    with pytest.raises(ModelError, match="not a folder"):
        find_causal_graph(tmp_path / "none")


GENAI = {
    "model": {
        "context_length": 64,
        "decoder": {
            "filename": "../elsewhere.onnx",
            "head_size": 16,
            "hidden_size": 64,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "num_key_value_heads": 2,
        },
        "vocab_size": 97,
    }
}


def test_without_config_json_the_sizes_are_read_from_genai_config_json(tmp_path: Path) -> None:
    (tmp_path / "genai_config.json").write_text(json.dumps(GENAI))

    assert CausalConfig.read(tmp_path) == CausalConfig(
        file=str(tmp_path / "genai_config.json"),
        vocab_size=97,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        hidden_size=64,
        head_dim=16,
        max_position_embeddings=64,
    )
    assert genai_filename(tmp_path) is None  # a file of another folder does not belong to this model

    (tmp_path / "config.json").write_text(json.dumps({"n_layer": 3, "n_embd": 12, "n_head": 2, "n_positions": 1024}))
    assert CausalConfig.read(tmp_path) == CausalConfig(
        file=str(tmp_path / "config.json"),
        num_hidden_layers=3,
        num_attention_heads=2,
        hidden_size=12,
        max_position_embeddings=1024,
    )


@pytest.mark.parametrize("size", [0, -1, 2.5, "64", True, [64]])
def test_an_invalid_size_is_refused(tmp_path: Path, size: Any) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": size}))

    with pytest.raises(ModelError, match=r"config\.json .*hidden_size = .*not a size"):
        CausalConfig.read(tmp_path)


@pytest.mark.parametrize("content", [{}, {"model": []}, {"model": {"decoder": "x"}}])
def test_a_genai_configuration_without_a_decoder_is_refused(tmp_path: Path, content: Any) -> None:
    (tmp_path / "genai_config.json").write_text(json.dumps(content))

    with pytest.raises(ModelError, match=r"genai_config\.json .*(model|decoder)"):
        CausalConfig.read(tmp_path)
