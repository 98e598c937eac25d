"""
The tensors of a seq2seq checkpoint, by their role.

Knows: tensor names in Hugging Face checkpoints. Does not know: config.json, graphs.

Shapes: V vocabulary · D width · N outputs, K inputs of a linear map.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.graphs.checkpoint_weights import Weights
from worker.graphs.seq2seq.network import Positions, Seq2SeqNetwork

# The table of positions of a side; those that have a formula are computed anew. fairseq's is no parameter: old
# checkpoints alone have it.
_POSITIONS = {
    Positions.LEARNED: "embed_positions.weight",
    Positions.SINUSOIDAL: "embed_positions.weight",
    Positions.FAIRSEQ: "embed_positions.weights",
}


def tensor_names(network: Seq2SeqNetwork) -> frozenset[str]:
    """The tensors that a checkpoint of this network may hold: tied tensors under each of their names, and the tables of
    positions, which the graphs compute anew."""
    names = {"lm_head.weight", "model.shared.weight"}
    if network.has_head_bias:
        names.add("final_logits_bias")
    for side, layers in (("encoder", network.encoder_layers), ("decoder", network.decoder_layers)):
        attentions = ("self_attn", "encoder_attn") if side == "decoder" else ("self_attn",)
        maps = [f"{block}.{part}_proj" for block in attentions for part in ("q", "k", "v", "out")]
        maps += [*(f"{block}_layer_norm" for block in attentions), "fc1", "fc2", "final_layer_norm"]
        names |= {f"model.{side}.embed_tokens.weight", f"model.{side}.{_POSITIONS[network.positions]}"}
        norms = [*["layer_norm"] * network.final_norm, *["layernorm_embedding"] * network.embedding_norm]
        names |= {f"model.{side}.{norm}.{part}" for norm in norms for part in ("weight", "bias")}
        names |= {
            f"model.{side}.layers.{layer}.{one}.{part}"
            for layer in range(layers)
            for one in maps
            for part in ("weight", "bias")
        }
    return frozenset(names)


class Seq2SeqWeights:
    """The tensors of a checkpoint, by their role."""

    def __init__(self, weights: Weights, network: Seq2SeqNetwork, head_ids: Sequence[int] | None) -> None:
        self._weights = weights
        self._network = network
        self._head_ids = None if head_ids is None else np.asarray(head_ids)

    def layer(self, layer: str, *names: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Weight (N, K) and bias (N,) of some linear maps of a layer, stacked."""
        weights = [self._padded(layer, name, self._get(f"model.{layer}.{name}.weight")) for name in names]
        biases = [self._padded(layer, name, self._get(f"model.{layer}.{name}.bias")) for name in names]
        return np.concatenate(weights), np.concatenate(biases)

    def one(self, name: str) -> NDArray[np.float32]:
        """A tensor of the network."""
        return self._get(f"model.{name}")

    def embeddings(self, side: str) -> NDArray[np.float32]:
        """The embeddings (V, D) of `encoder` or `decoder`. A file may have tied tensors under any of their names."""
        names = [f"model.{side}.embed_tokens.weight"]
        if self._network.shared_embeddings:
            names = ["model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"]
        if self._network.tied_head and (self._network.shared_embeddings or side == "decoder"):
            names.append("lm_head.weight")
        return self._get(*names)

    def head(self) -> NDArray[np.float32]:
        """(V, D)."""
        return self._kept(self.embeddings("decoder") if self._network.tied_head else self._get("lm_head.weight"))

    @property
    def head_rows(self) -> str:
        """The name under which a graph stores the head: that of the embeddings where it is the same tensor."""
        if self._head_ids is not None or not self._network.tied_head:
            return "head.rows"
        return "embeddings" if self._network.shared_embeddings else "decoder.embeddings"

    def head_bias(self) -> NDArray[np.float32]:
        """(V,)."""
        bias = self._weights["final_logits_bias"] if "final_logits_bias" in self._weights else np.zeros(1)
        bias = np.asarray(bias, np.float32).reshape(-1)
        return self._kept(bias) if len(bias) > 1 else bias

    def positions(self, side: str) -> NDArray[np.float32]:
        """(positions, D), the first token's first. Of sinusoids, sines in the first half, cosines in the second."""
        network = self._network
        if network.positions is Positions.LEARNED:
            table = self._get(f"model.{side}.{_POSITIONS[Positions.LEARNED]}")[network.first_position :]
            if len(table) < network.max_positions:
                raise ModelError(f"the checkpoint has {len(table)} positions, and config.json {network.max_positions}")
            return table[: network.max_positions]
        position = np.arange(network.first_position, network.first_position + network.max_positions)[:, None]
        if network.positions is Positions.FAIRSEQ:
            return _fairseq_sinusoids(position, network.width)
        angles = position / np.power(10000, 2 * (np.arange(network.width) // 2) / network.width)
        return np.concatenate((np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])), axis=1).astype(np.float32)

    def _padded(self, layer: str, name: str, tensor: NDArray[np.float32]) -> NDArray[np.float32]:
        """Append zeros to each head of a projection: rows of the projections to queries, keys and values, columns of
        the output projection. They do not change any product."""
        heads = self._network.heads(layer.partition(".")[0])
        missing = heads.size - heads.size_in_checkpoint
        if not missing or not name.endswith("_proj"):
            return tensor
        axis = 1 if name.endswith("out_proj") else 0
        if axis == tensor.ndim:  # the bias of out_proj
            return tensor
        shape = tensor.shape
        by_head = tensor.reshape(*shape[:axis], heads.number, -1, *shape[axis + 1 :])
        zeros = [(0, 0)] * by_head.ndim
        zeros[axis + 1] = (0, missing)
        return np.pad(by_head, zeros).reshape(*shape[:axis], heads.width, *shape[axis + 1 :])

    def _kept(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return rows if self._head_ids is None else rows[self._head_ids]

    def _get(self, *names: str) -> NDArray[np.float32]:
        for name in names:
            if name in self._weights:
                return np.asarray(self._weights[name], np.float32)
        raise ModelError(f"the checkpoint lacks the tensor {' or '.join(names)}: its files do not belong together")


def _fairseq_sinusoids(position: NDArray[np.int64], width: int) -> NDArray[np.float32]:
    """In float32 from the first operation on, as `M2M100SinusoidalPositionalEmbedding.get_embedding`: the angle of a
    late position is rounded to 3e-5."""
    half = width // 2
    step = np.float32(np.log(10000) / (half - 1))
    frequencies = np.exp(np.arange(half, dtype=np.float32) * -step)
    angles = position.astype(np.float32) * frequencies
    sinusoids = np.concatenate((np.sin(angles), np.cos(angles)), axis=1)
    return np.pad(sinusoids, ((0, 0), (0, width % 2)))
