"""
The tensors of a seq2seq checkpoint, by their role.

Knows: shapes, ties. Does not know: config.json, graphs.

Shapes: V vocabulary · D width · N outputs, K inputs of a linear map.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.graphs.checkpoint_weights import Weights
from worker.graphs.seq2seq.network import Positions, Seq2SeqNetwork
from worker.graphs.seq2seq.relative_bias import bias_by_distance
from worker.graphs.seq2seq.tensor_names import HEAD, HEAD_BIAS, name_of, positions_role

_INNER = ("fc1", "gate", "up")  # linear maps to the inner width of a feed-forward part; fc2 is the one back


class Seq2SeqWeights:
    """The tensors of a checkpoint, by their role."""

    def __init__(self, weights: Weights, network: Seq2SeqNetwork, head_ids: Sequence[int] | None) -> None:
        self._weights = weights
        self._network = network
        self._head_ids = None if head_ids is None else np.asarray(head_ids)

    def layer(self, layer: str, *names: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Weight (N, K) and bias (N,) of some linear maps of a layer, stacked; the bias of a network without is 0."""
        weights = np.concatenate([self._padded(layer, name, self.one(f"{layer}.{name}.weight")) for name in names])
        if not self._network.has_biases:
            return weights, np.zeros(len(weights), np.float32)
        return weights, np.concatenate([self._padded(layer, name, self.one(f"{layer}.{name}.bias")) for name in names])

    def one(self, name: str) -> NDArray[np.float32]:
        """A tensor of the network, by its role. Raises ModelError if it is missing, or has another shape than
        config.json says."""
        tensor = self._get(name_of(self._network, name))
        wanted = _shape_of(self._network, name)
        if len(tensor.shape) != len(wanted) or any(
            size not in (None, has) for size, has in zip(wanted, tensor.shape, strict=True)
        ):
            sizes = ", ".join("any" if size is None else str(size) for size in wanted)
            raise ModelError(
                f"the tensor {name_of(self._network, name)} has the shape {tensor.shape}, and config.json gives "
                f"({sizes}): the files do not belong together"
            )
        return tensor

    def norm(self, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Weight and bias (D,) of a norm; the bias of a network without is 0."""
        weight = self.one(f"{name}.weight")
        if name == "decoder.layer_norm":
            weight = weight * np.float32(self._network.head_scale)
        return weight, self.one(f"{name}.bias") if self._network.has_biases else np.zeros_like(weight)

    def embeddings(self, side: str) -> NDArray[np.float32]:
        """The embeddings (V, D) of `encoder` or `decoder`. A file may have tied tensors under any of their names."""
        roles = [f"{side}.embed_tokens.weight"]
        if self._network.shared_embeddings:
            roles = ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]
        names = [name_of(self._network, role) for role in roles]
        if self._network.tied_head and (self._network.shared_embeddings or side == "decoder"):
            names.append(HEAD)
        if not self._network.shared_embeddings and not any(name in self._weights for name in names):
            raise ModelError(
                f"the checkpoint lacks the tensor {names[0]}: by its config.json (share_encoder_decoder_embeddings, or "
                "tie_word_embeddings = false) each side has embeddings of its own"
            )
        table = self._get(*names)
        if table.ndim != 2 or table.shape[1] != self._network.width:
            raise ModelError(
                f"the embeddings have the shape {table.shape}, and config.json d_model = {self._network.width}"
            )
        return table

    def head(self) -> NDArray[np.float32]:
        """The head's weight (V, D)."""
        return self._kept(self.embeddings("decoder") if self._network.tied_head else self._get(HEAD))

    @property
    def head_rows(self) -> str:
        """The name under which a graph stores the head: the name of the embeddings if both are one tensor."""
        if self._head_ids is not None or not self._network.tied_head:
            return "head.rows"
        return "embeddings" if self._network.shared_embeddings else "decoder.embeddings"

    def head_bias(self) -> NDArray[np.float32]:
        """The head's bias (V,)."""
        bias = self._weights[HEAD_BIAS] if HEAD_BIAS in self._weights else np.zeros(1)
        bias = np.asarray(bias, np.float32).reshape(-1)
        return self._kept(bias) if len(bias) > 1 else bias

    def positions(self, side: str) -> NDArray[np.float32]:
        """(positions, D), the first token's first. Of sinusoids, sines in the first half, cosines in the second."""
        network, role = self._network, positions_role(self._network, side)
        # Sinusoids that were saved, too, may be rounded to half precision; transformers takes them as they are.
        is_saved = network.positions is Positions.SINUSOIDAL and name_of(network, role) in self._weights
        if network.positions is Positions.LEARNED or is_saved:
            table = self.one(role)[network.first_position :]
            if len(table) < network.max_positions:
                raise ModelError(f"the checkpoint has {len(table)} positions, and config.json {network.max_positions}")
            return table[: network.max_positions]
        position = np.arange(network.first_position, network.first_position + network.max_positions)[:, None]
        if network.positions is Positions.FAIRSEQ:
            return _fairseq_sinusoids(position, network.width)
        angles = position / np.power(10000, 2 * (np.arange(network.width) // 2) / network.width)
        return np.concatenate((np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])), axis=1).astype(np.float32)

    def relative_bias(self, side: str) -> NDArray[np.float32]:
        """The table of `bias_by_distance`: both ways for the encoder, backward only for the decoder."""
        network = self._network
        assert network.relative is not None
        buckets = self.one(positions_role(network, side))
        return bias_by_distance(buckets, network.relative, both_ways=side == "encoder")

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
    """The sinusoids of M2M100 (positions, D), computed in float32 from the first operation on, as in
    `M2M100SinusoidalPositionalEmbedding.get_embedding`: the angle of a late position is rounded to 3e-5."""
    half = width // 2
    step = np.float32(np.log(10000) / (half - 1))
    frequencies = np.exp(np.arange(half, dtype=np.float32) * -step)
    angles = position.astype(np.float32) * frequencies
    sinusoids = np.concatenate((np.sin(angles), np.cos(angles)), axis=1)
    return np.pad(sinusoids, ((0, 0), (0, width % 2)))


def _shape_of(network: Seq2SeqNetwork, role: str) -> tuple[int | None, ...]:
    """The sizes that config.json gives a tensor; None: it does not say. A linear map has (outputs, inputs)."""
    width, (module_path, _, kind) = network.width, role.rpartition(".")
    side, _, rest = module_path.partition(".")
    module = rest.rpartition(".")[2]
    if module == "relative_bias":
        assert network.relative is not None
        return network.relative.buckets, network.heads(side).number
    if module_path == "shared" or module.startswith("embed_"):  # of tokens, and of positions
        return None, width
    heads = network.heads(side)
    inner = network.encoder_inner if side == "encoder" else network.decoder_inner
    projected = heads.number * heads.size_in_checkpoint
    rows, columns = width, width
    if module in _INNER:
        rows = inner
    elif module == "fc2":
        columns = inner
    elif module == "out_proj":
        columns = projected
    elif module.endswith("_proj"):
        rows = projected
    return (rows,) if kind == "bias" or "norm" in module else (rows, columns)
