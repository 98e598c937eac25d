"""
The shapes of a seq2seq checkpoint's tensors, by their role.

Knows: sizes. Does not know: names in checkpoints, graphs. Roles are those of `tensor_names`.
"""

from worker.graphs.seq2seq.network import Seq2SeqNetwork

_INNER = ("fc1", "gate", "up")  # linear maps to the inner width of a feed-forward part; fc2 is the one back


def shape_of(network: Seq2SeqNetwork, role: str) -> tuple[int | None, ...]:
    """The sizes that config.json gives a tensor; None: it does not say. A linear map has (outputs, inputs)."""
    width, (place, _, kind) = network.width, role.rpartition(".")
    side, _, rest = place.partition(".")
    module = rest.rpartition(".")[2]
    if module == "relative_bias":
        assert network.relative is not None
        return network.relative.buckets, network.heads(side).number
    if place == "shared" or module.startswith("embed_"):  # of tokens, and of positions
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
