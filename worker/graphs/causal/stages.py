"""
A causal language model cut into stages at the residual between two layers.

    stage.0.onnx   the embeddings and the first layers: ids      -> residual
    stage.1.onnx   the next layers:                     residual -> residual
    stage.2.onnx   the last layers and the norm:        residual -> hidden states
    head.onnx      as before, with the weights of the last stage

The code that built the graphs of the whole model builds those of the stages, over the same weights: a stage computes
what its layers compute in the whole model. Each stage has a weights file. Tied embeddings are in the first and last.
"""

from collections.abc import Sequence
from pathlib import Path

from worker.graphs.causal.graphs import body_graph
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.causal.weights import CausalWeights
from worker.graphs.file_names import BODY, HEAD, stage_graph, stage_weights
from worker.graphs.precision import Precision
from worker.graphs.stage_cuts import cut_layers
from worker.graphs.weights import WrittenWeights, move_weights, read_graph


def cut_causal(sizes: CausalSizes, stages: int) -> tuple[range, ...]:
    """The layers of each stage, balanced by multiply-adds; from 2 stages to L."""
    return cut_layers(sizes.layers, _layer_cost(sizes), sizes.width * sizes.vocab_size, stages)


def stage_costs(sizes: CausalSizes, stages: Sequence[range]) -> list[int]:
    """The multiply-adds of each stage, for one token."""
    costs = [len(layers) * _layer_cost(sizes) for layers in stages]
    costs[-1] += sizes.width * sizes.vocab_size
    return costs


def write_stages(source: Path, folder: Path, sizes: CausalSizes, precision: Precision, stages: Sequence[range]) -> None:
    """Write the stages of the model in `source`, which `write_causal` wrote, into `folder`. Reads the weights in
    pieces, so that a model larger than the memory can be cut. Raises ModelError where `source` is damaged."""
    store, no_weights = WrittenWeights.read(source / BODY), CausalWeights({}, sizes)
    for number, layers in enumerate(stages):
        graphs = {stage_graph(number): body_graph(sizes, store, no_weights, precision, layers).model()}
        if number == len(stages) - 1:
            graphs[HEAD] = read_graph(source / HEAD)
        move_weights(list(graphs.values()), source, folder / stage_weights(number))
        for name, graph in graphs.items():
            (folder / name).write_bytes(graph.SerializeToString(deterministic=True))


def _layer_cost(sizes: CausalSizes) -> int:
    """The multiply-adds of a layer's matrix products, for one token."""
    attention = sizes.width * (2 * sizes.heads + 2 * sizes.kv_heads) * sizes.head_size
    return attention + (3 if sizes.block.is_gated else 2) * sizes.width * sizes.inner_width
