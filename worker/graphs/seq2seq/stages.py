"""
A seq2seq model cut into stages: the encoder, and the decoder at the residual between two layers.

    stage.0.onnx            the encoder: ids -> cross-attention keys and values of all decoder layers
    stage.1.onnx            the embeddings and the first decoder layers: ids -> residual
    stage.2.onnx            the last decoder layers and the head: residual -> logits
    screened_decoder.onnx   the last stage with the head in int8, where the whole model has one

The code that built the graphs of the whole model builds those of the stages, over the same weights: a stage computes
what the same layers compute in the whole model. Each stage has a weights file of its own.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx import ModelProto, helper

from worker.graphs.file_names import DECODER, ENCODER, SCREENED, stage_graph, stage_weights
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.graphs import decoder_over, screened_decoder_graph
from worker.graphs.seq2seq.weights import Seq2SeqWeights
from worker.graphs.stage_cuts import cut_layers
from worker.graphs.weights import WrittenWeights, move_weights, read_graph


def cut_decoder(config: Mapping[str, Any], num_target_ids: int, stages: int) -> tuple[range, ...]:
    """The decoder layers of each stage after the encoder's, balanced by multiply-adds; from 2 stages to L + 1.
    `num_target_ids`: of the head."""
    network = read_network(config)
    return cut_layers(network.decoder_layers, _layer_cost(config), network.width * num_target_ids, stages - 1)


def translation_stage_costs(config: Mapping[str, Any], num_target_ids: int, stages: Sequence[range]) -> list[int]:
    """The multiply-adds of each stage for one token: the encoder's for a source token, with the keys and values of
    cross-attention, the others' for a target token."""
    network = read_network(config)
    width = network.width
    encoder_layer = 4 * width * network.encoder_heads.width + 2 * width * network.encoder_inner
    encoder = network.encoder_layers * encoder_layer + 2 * network.decoder_layers * width * network.decoder_heads.width
    costs = [encoder, *(len(layers) * _layer_cost(config) for layers in stages)]
    costs[-1] += width * num_target_ids
    return costs


def write_translation_stages(
    source: Path, folder: Path, config: Mapping[str, Any], precision: Precision, stages: Sequence[range]
) -> None:
    """Write the stages of the model in `source`, which `write_seq2seq` wrote, into `folder`; `stages`: the decoder
    layers of each stage after the encoder's. Reads the weights in pieces. Raises ModelError where `source` is
    damaged."""
    _write(source, folder, 0, {stage_graph(0): read_graph(source / ENCODER)})
    store = WrittenWeights.read(source / DECODER)
    for number, layers in enumerate(stages, start=1):
        graphs = {stage_graph(number): decoder_over(store, config, precision, layers=layers).model()}
        if number == len(stages) and (source / SCREENED).is_file():
            graphs[SCREENED] = _screened(source, config, layers)
        _write(source, folder, number, graphs)


def _screened(source: Path, config: Mapping[str, Any], layers: range) -> ModelProto:
    """The last stage with the head in int8, and the bounds of its error."""
    whole, network = read_graph(source / SCREENED), read_network(config)
    store = WrittenWeights.read(source / SCREENED)
    graph = screened_decoder_graph(network, store, Seq2SeqWeights({}, network, None), layers).model()
    helper.set_model_props(graph, {entry.key: entry.value for entry in whole.metadata_props})
    return graph


def _write(source: Path, folder: Path, number: int, graphs: Mapping[str, ModelProto]) -> None:
    """Write the graphs of a stage and their weights."""
    move_weights(list(graphs.values()), source, folder / stage_weights(number))
    for name, graph in graphs.items():
        (folder / name).write_bytes(graph.SerializeToString(deterministic=True))


def _layer_cost(config: Mapping[str, Any]) -> int:
    """The multiply-adds of a decoder layer's matrix products, for one token."""
    network = read_network(config)
    return 6 * network.width * network.decoder_heads.width + 2 * network.width * network.decoder_inner
