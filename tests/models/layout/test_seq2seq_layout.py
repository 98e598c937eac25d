"""The inputs and outputs of real graphs equal those of the made-up graphs in tests/unit."""

from pathlib import Path
from typing import Any

import numpy as np

from worker.models.file_names import DECODER, ENCODER, MERGED, WITH_PAST
from worker.models.layout.graph_signature import GraphSignature, Tensor
from worker.models.layout.seq2seq_layout import CacheShape, LayoutKind

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


def two(**changes: Any) -> dict[str, GraphSignature]:
    return {ENCODER: encoder(), DECODER: decoder(DECODER), WITH_PAST: decoder(WITH_PAST, **changes)}


def test_real_graphs_have_the_layout_of_the_made_up_graphs(golden_folder: Path, open_tiny: Any) -> None:
    tiny = open_tiny("tiny-relu-tied", "two")

    assert tiny.model.graphs.layout.kind is LayoutKind.TWO_DECODERS
    assert tiny.model.graphs.layout.cache == CacheShape(2, 4, 6, np.dtype(np.float32))
    assert tiny.model.graphs.layout.width == 24
