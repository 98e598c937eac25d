"""
Upper bounds of keys and values, from the weights alone.

What the projections read is a normalized residual y = g n + c, elementwise, with |n| <= sqrt(D). So by Cauchy and
Schwarz |w y + b| <= |w g| sqrt(D) + |w c + b| for each row w of a projection. Where norms come last, the first layer of
the decoder reads an embedding and a position instead, of which the longest are known.

Shapes: L decoder layers · N heads · H head size · D width.
"""

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.graphs.seq2seq.network import Seq2SeqNetwork
from worker.graphs.seq2seq.quantized_kv import LargestKV
from worker.graphs.seq2seq.weights import Seq2SeqWeights


def largest_possible(network: Seq2SeqNetwork, weights: Seq2SeqWeights) -> LargestKV:
    """The bound of every key and value. A row of embeddings that is not finite is left out, since sentences with it
    fail; raises ModelError for projections that are not finite."""
    source = (
        "encoder.layer_norm" if network.final_norm else f"encoder.layers.{network.encoder_layers - 1}.final_layer_norm"
    )
    past, cross = [], []
    for layer in range(network.decoder_layers):
        name = f"decoder.layers.{layer}"
        for part in ("k_proj", "v_proj"):
            weight, bias = weights.layer(name, f"self_attn.{part}")
            if network.norm_first:
                bound = _of_normalized(network, weights, f"{name}.self_attn_layer_norm", weight, bias)
            elif layer == 0 and network.embedding_norm:
                bound = _of_normalized(network, weights, "decoder.layernorm_embedding", weight, bias)
            elif layer == 0:
                longest = network.scale * _longest(weights.embeddings("decoder"))
                longest += _longest(weights.positions("decoder"))
                bound = longest * np.linalg.norm(weight, axis=1) + np.abs(bias)
            else:
                bound = _of_normalized(network, weights, f"decoder.layers.{layer - 1}.final_layer_norm", weight, bias)
            past.append(bound)
            cross.append(_of_normalized(network, weights, source, *weights.layer(name, f"encoder_attn.{part}")))
    if not np.isfinite(past).all() or not np.isfinite(cross).all():
        raise ModelError("the projections to keys and values have weights that are not finite (NaN or infinity)")
    shape = 2 * network.decoder_layers, network.decoder_heads.number, network.decoder_heads.size
    return LargestKV(np.reshape(past, shape), np.reshape(cross, shape))


def _of_normalized(
    network: Seq2SeqNetwork, weights: Seq2SeqWeights, norm: str, weight: NDArray[np.float32], bias: NDArray[np.float32]
) -> NDArray[np.float32]:
    gain, offset = weights.norm(norm)
    spread = np.linalg.norm(weight * gain, axis=1) * np.float32(network.width**0.5)
    bound: NDArray[np.float32] = spread + np.abs(weight @ offset + bias)
    return bound


def _longest(rows: NDArray[np.float32]) -> float:
    squares = np.einsum("rd,rd->r", rows, rows)
    return float(np.sqrt(squares[np.isfinite(squares)].max(initial=0)))
