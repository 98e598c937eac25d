"""
The graphs of a seq2seq model, from its weights.

    encoder.onnx   ids (B, S), rows of equal length           -> cross-attention keys and values of all decoder layers
    decoder.onnx   one token a row, each at its own position  -> logits

Self-attention writes into a buffer of the caller, which is past and present at once; cross-attention reads keys and
values from a buffer of the caller. Each row has its own length in both, so rows may begin and end at different steps,
and nothing is padded.

Attention: onnxruntime's contrib operators GroupQueryAttention and
MultiHeadAttention (docs/ContribOperators.md).

Shapes: R rows · B sentences (R / beams) · S source length · C capacity of the cache · L layers · N heads ·
H head size · D width · V vocabulary of the head.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from jobs.errors import ModelError
from worker.graphs.checkpoint_weights import Weights
from worker.graphs.file_names import DECODER, ENCODER, SCREENED, WEIGHTS
from worker.graphs.graph_builder import GraphBuilder
from worker.graphs.matrix_products import Int8Products, Products, products_in
from worker.graphs.precision import Precision
from worker.graphs.rounding import rounding_error
from worker.graphs.seq2seq.block import MaskedCrossAttention, Seq2SeqBlock
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.network import Seq2SeqNetwork
from worker.graphs.seq2seq.quantized_kv import INT8, KVScales, kv_dtype, times_key_scales
from worker.graphs.seq2seq.weights import Seq2SeqWeights
from worker.graphs.weights import ExtendedWeights, Store, WeightsFile, WrittenWeights, read_graph

LARGE_HEAD = 4096  # ids; for a smaller head a second graph does not pay off
_HEAD_BIAS = "head.bias"
_HEAD_ROWS = ("head.rows", "decoder.embeddings", "embeddings")  # tensors that may hold the head


def write_seq2seq(
    folder: Path,
    config: Mapping[str, Any],
    weights: Weights,
    *,
    precision: Precision,
    head_ids: Sequence[int] | None = None,
) -> None:
    """Write encoder, decoder and their weights into `folder`. `head_ids`: the target ids of the head; None: all.

    Raises ModelError for what is missing in the checkpoint or not supported. The same input gives the same bytes.
    """
    network = read_network(config)
    named = Seq2SeqWeights(weights, network, head_ids)
    has_bias = bool(named.head_bias().any())
    graphs = {}
    with WeightsFile(folder / WEIGHTS) as file:
        graphs[ENCODER] = encoder_graph(network, file, named, precision)
        graphs[DECODER] = decoder_graph(network, file, named, precision, head_rows=named.head_rows, head_bias=has_bias)
        if precision is Precision.FP32 and len(named.head()) > LARGE_HEAD:
            graphs[SCREENED] = screened_decoder_graph(network, file, named)
    for name, net in graphs.items():
        (folder / name).write_bytes(net.serialized())


def quantize_kv(folder: Path, config: Mapping[str, Any], precision: Precision, scales: KVScales) -> None:
    """Let the model in `folder`, which `write_seq2seq` wrote, keep keys and values in int8: write encoder and decoder
    anew, over the same weights, with the scales in them."""
    network = read_network(config)
    for name in (ENCODER, DECODER):
        store = ExtendedWeights.read(folder / name)
        for tensor, values in scales.tensors().items():
            store.keep(tensor, values)
        if name == ENCODER:
            net = encoder_graph(network, store, Seq2SeqWeights({}, network, None), precision)
        else:
            net = decoder_over(store, config, precision)
        (folder / name).write_bytes(net.serialized())


def cached_dtype(file: Path) -> np.dtype[Any]:
    """The type of keys and values of the decoder in `file`, or of a stage of one; raise ModelError where it is not such
    a graph."""
    past = next((entry for entry in read_graph(file).graph.input if entry.name == "past.0.key"), None)
    if past is None:
        raise ModelError(f"{file} lacks the input past.0.key: add the model again")
    return np.dtype(helper.tensor_dtype_to_np_dtype(past.type.tensor_type.elem_type))


def rebuild_decoder(
    file: Path,
    config: Mapping[str, Any],
    precision: Precision,
    *,
    beams: int = 1,
    masked: bool = False,
    layers: range | None = None,
    queries: Sequence[int] = (),
) -> bytes:
    """Another decoder over the weights of the graph in `file`, a decoder or a stage of one; for `beams`, `masked`,
    `layers` and `queries` see `decoder_graph`."""
    store = WrittenWeights.read(file)
    net = decoder_over(store, config, precision, beams=beams, masked=masked, layers=layers, queries=queries)
    return net.serialized()


def rebuild_screened_decoder(file: Path, config: Mapping[str, Any], queries: Sequence[int]) -> bytes:
    """The screened decoder in `file`, with the output `queries`; without its metadata."""
    network, store = read_network(config), WrittenWeights.read(file)
    layers = range(network.decoder_layers)
    no_weights = Seq2SeqWeights({}, network, None)  # all tensors are in the store
    return screened_decoder_graph(network, store, no_weights, layers, queries=queries).serialized()


def decoder_over(
    store: Store,
    config: Mapping[str, Any],
    precision: Precision,
    *,
    beams: int = 1,
    masked: bool = False,
    layers: range | None = None,
    queries: Sequence[int] = (),
) -> GraphBuilder:
    """As `rebuild_decoder`, not serialized."""
    network = read_network(config)
    no_weights = Seq2SeqWeights({}, network, None)  # all tensors are in the store
    rows, has_bias = head_rows_in(store), _HEAD_BIAS in store
    return decoder_graph(
        network,
        store,
        no_weights,
        precision,
        head_rows=rows,
        head_bias=has_bias,
        beams=beams,
        masked=masked,
        layers=layers,
        queries=queries,
    )


def screen_bounds(file: Path) -> tuple[float, float]:
    """The error and the norm of the screened decoder in `file`: see `rounding`."""
    metadata = {entry.key: entry.value for entry in read_graph(file).metadata_props}
    return float(metadata["screen_error"]), float(metadata["screen_norm"])


def map_head(file: Path) -> NDArray[np.float32]:
    """The head of the decoder in `file`, in float32 (V, D), memory-mapped from the weights file."""
    store = WrittenWeights.read(file)
    return store.map(head_rows_in(store), file.parent)


def map_head_bias(file: Path) -> NDArray[np.float32] | None:
    """The bias of the head of the decoder in `file` (V,), memory-mapped; None: it has none."""
    store = WrittenWeights.read(file)
    return store.map(_HEAD_BIAS, file.parent) if _HEAD_BIAS in store else None


def head_rows_in(store: Store) -> str:
    """The tensor that holds the head of a written model; empty where the head is in int8 alone."""
    return next((name for name in _HEAD_ROWS if name in store), "")


def encoder_graph(network: Seq2SeqNetwork, store: Store, weights: Seq2SeqWeights, precision: Precision) -> GraphBuilder:
    """All tokens of all sentences at once; the sentences of a call have equal length.

    ids (B, S) -> cross (B, S, 2 L, N, H): key and value of layer 0, of layer 1, ...
    """
    net, products = GraphBuilder("encoder", store), products_in(precision)
    block = Seq2SeqBlock(net, products, network, weights, precision.float_dtype, "encoder")
    ids = net.input("ids", np.int64, ["B", "S"])
    shape = net.op("Shape", ids, name="ids.shape")
    length = net.op("Gather", shape, net.constant("one_int", [1]), name="source_length")
    x = block.add_first_positions(block.embed(ids, "encoder"), "encoder", length, "encoder.input")  # (B, S, D)
    x = net.op("Reshape", x, block.rows_shape, name="encoder.x")
    x = block.begin_layers(x, "encoder")
    sentences = net.op("Concat", shape, net.constant("minus_one", [-1]), name="sentences_shape", axis=0)  # (B, S, -1)
    for layer in range(network.encoder_layers):
        name = f"encoder.layers.{layer}"
        attended = block.attend_to_all(x, name, sentences, length)
        x = block.end_attention(x, attended, name, "self_attn")
        x = block.feed_forward(x, name)
    block.cross_keys_and_values(block.end_layers(x, "encoder"), shape)
    return net


def decoder_graph(
    network: Seq2SeqNetwork,
    store: Store,
    weights: Seq2SeqWeights,
    precision: Precision,
    *,
    head_rows: str,
    head_bias: bool,
    beams: int = 1,
    masked: bool = False,
    layers: range | None = None,
    queries: Sequence[int] = (),
) -> GraphBuilder:
    """One token a row. Rows come in groups of `beams` that share a source, and with it cross keys and values.

    `masked`: groups of any size; the inputs of `MaskedCrossAttention` replace source_lengths and longest_source.
    `layers`: the layers of one stage; None for all. A stage without the first layer reads `residual` (R, D) in place of
    ids; one without the last layer outputs `next_residual` in place of logits. Past and cross number the layers of the
    stage from 0.
    `queries`: C layers of a whole decoder whose queries of cross-attention are an output, cross_queries (R, C x N x H),
    for products with keys as they are in the cache.

    ids (R,), positions (R,): number of cached tokens of the row, longest (1,): the greatest of them + 1,
    source_lengths (B,): S - 1 of each sentence, longest_source (1,): the greatest S, past and cross
    -> logits (R, V), and in int8 scales (R, 1), the factors of the logits
    """
    net, products = GraphBuilder("decoder", store), products_in(precision)
    layers = range(network.decoder_layers) if layers is None else layers
    x = _decoder_layers(net, products, network, weights, precision, beams, masked, layers, queries)
    if layers.stop < network.decoder_layers:
        dtype = np.dtype(np.float32) if network.is_wide else precision.float_dtype
        net.output(x, "next_residual", dtype, ["R", network.width])
        return net
    logits, scales = products.head(net, x, head_rows, weights.head, weights.head_bias if head_bias else None)
    in_int8 = precision is Precision.INT8
    num_ids = store.tensor("head.int8").dims[1] if in_int8 else store.tensor(head_rows).dims[0]
    net.output(logits, "logits", precision.float_dtype, ["R", num_ids])
    if scales:
        net.output(scales, "scales", np.float32, ["R", 1])
    return net


def screened_decoder_graph(
    network: Seq2SeqNetwork,
    store: Store,
    weights: Seq2SeqWeights,
    layers: range | None = None,
    *,
    queries: Sequence[int] = (),
) -> GraphBuilder:
    """The decoder in float32, with the head in int8: it narrows the ids down to the few that can be the best.

    Besides logits, without the head's bias, and scales it outputs the hidden states (R, D), to compute the logits of
    those few exactly. The metadata screen_error and screen_norm (`rounding.rounding_error`) bound the error of a logit;
    with `layers`, a last stage, the caller adds them. `queries`: as of `decoder_graph`.
    """
    net, products = GraphBuilder("screened", store), products_in(Precision.FP32)
    own = range(network.decoder_layers) if layers is None else layers
    x = _decoder_layers(net, products, network, weights, Precision.FP32, 1, False, own, queries)
    logits, scales = Int8Products().head(net, x, "", weights.head, None)
    assert scales is not None
    net.output(logits, "logits", np.float32, ["R", store.tensor("head.int8").dims[1]])
    net.output(scales, "scales", np.float32, ["R", 1])
    net.output(x, "hidden", np.float32, ["R", network.width])
    if layers is None:
        error, norm = rounding_error(weights.head())
        net.metadata.update(screen_error=repr(error), screen_norm=repr(norm))
    return net


def _decoder_layers(
    net: GraphBuilder,
    products: Products,
    network: Seq2SeqNetwork,
    weights: Seq2SeqWeights,
    precision: Precision,
    beams: int,
    masked: bool,
    layers: range,
    queries: Sequence[int],
) -> str:
    """Add the inputs and `layers` of the decoder. Returns the hidden states (R, D), or the residual for the next
    stage."""
    block = Seq2SeqBlock(net, products, network, weights, precision.float_dtype)
    x = net.input("ids", np.int64, ["R"]) if layers.start == 0 else block.residual("R")
    net.input("positions", np.int32, ["R"])
    net.input("longest", np.int32, [1])
    source = MaskedCrossAttention(net, network.decoder_heads, block.dtype) if masked else None
    if source is None:
        net.input("source_lengths", np.int32, ["B"])
        net.input("longest_source", np.int32, [1])
    if layers.start == 0:
        x = block.begin_layers(block.embed_targets(x, "decoder"), "decoder")
    for cached, layer in enumerate(layers):
        name = f"decoder.layers.{layer}"
        attended = block.attend_to_past(x, layer, cached)
        x = block.end_attention(x, attended, name, "self_attn")
        if source is None:
            attended = block.attend_to_source(x, layer, cached, beams)
        else:
            attended = block.attend_to_masked_source(x, layer, cached, source)
        x = block.end_attention(x, attended, name, "encoder_attn")
        x = block.feed_forward(x, name)
    if queries:
        own = []
        for layer in queries:
            wide = net.op("Cast", block.queries[layer], name=f"queries.{layer}", to=TensorProto.FLOAT)
            in_int8 = kv_dtype(net, layer, block.dtype) == INT8
            own.append(times_key_scales(net, wide, layer) if in_int8 else wide)
        wide = net.op("Concat", *own, name="all_queries", axis=1)
        net.output(wide, "cross_queries", np.float32, ["R", len(own) * network.decoder_heads.width])
    return block.end_layers(x, "decoder") if layers.stop == network.decoder_layers else x
