"""
The tensors of a seq2seq checkpoint by their role, in the two ways in which checkpoints name them.

    role                                 BART and its kin: the role behind `model.`; T5
    encoder.layers.0.self_attn.q_proj    encoder.block.0.layer.0.SelfAttention.q
    decoder.layers.0.gate                decoder.block.0.layer.2.DenseReluDense.wi_0
    decoder.layer_norm                   decoder.final_layer_norm
    shared                               shared

Knows: names. Does not know: shapes, config.json, graphs.
"""

from worker.graphs.seq2seq.network import Naming, Positions, Seq2SeqNetwork

HEAD, HEAD_BIAS = "lm_head.weight", "final_logits_bias"
_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
# The table of positions of a side; tables that have a formula are computed again. fairseq's is no parameter: old
# checkpoints alone have it.
_POSITIONS = {
    Positions.LEARNED: "embed_positions.weight",
    Positions.SINUSOIDAL: "embed_positions.weight",
    Positions.FAIRSEQ: "embed_positions.weights",
    Positions.RELATIVE: "relative_bias.weight",
}
_T5_ATTENTION = {"self_attn": "layer.0.SelfAttention", "encoder_attn": "layer.1.EncDecAttention"}
_T5_PROJECTIONS = dict(zip(_PROJECTIONS, "qkvo", strict=True))
_T5_INNER = {"fc1": "wi", "gate": "wi_0", "up": "wi_1", "fc2": "wo"}


def positions_role(network: Seq2SeqNetwork, side: str) -> str:
    """The tensor of positions of a side."""
    return f"{side}.{_POSITIONS[network.positions]}"


def tensor_names(network: Seq2SeqNetwork) -> frozenset[str]:
    """The tensors that a checkpoint of this network may hold: tied tensors under each of their names, and the tables of
    positions, which the graphs compute anew."""
    roles = {"shared.weight"}
    kinds = ("weight", "bias") if network.has_biases else ("weight",)
    for side, layers in (("encoder", network.encoder_layers), ("decoder", network.decoder_layers)):
        attentions = ("self_attn", "encoder_attn") if side == "decoder" else ("self_attn",)
        parts = [f"{block}.{part}" for block in attentions for part in _PROJECTIONS]
        parts += [*(f"{block}_layer_norm" for block in attentions), *network.inner_maps, "final_layer_norm"]
        roles |= {f"{side}.embed_tokens.weight", positions_role(network, side)}
        norms = [*["layer_norm"] * network.final_norm, *["layernorm_embedding"] * network.embedding_norm]
        roles |= {f"{side}.{norm}.{kind}" for norm in norms for kind in kinds}
        roles |= {f"{side}.layers.{layer}.{part}.{kind}" for layer in range(layers) for part in parts for kind in kinds}
    names = {name_of(network, role) for role in roles} | {HEAD}
    if network.naming is Naming.T5:  # old checkpoints have one for cross-attention, which no release reads
        names.add("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight")
    return frozenset(names | {HEAD_BIAS}) if network.has_head_bias else frozenset(names)


def name_of(network: Seq2SeqNetwork, role: str) -> str:
    """The name of a tensor in checkpoints of this network; `role`: as in this file's table, with .weight or .bias."""
    if network.naming is Naming.BART:
        return f"model.{role}"
    side, _, rest = role.partition(".")
    if rest == _POSITIONS[Positions.RELATIVE]:
        return f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    if rest == "layer_norm.weight":
        return f"{side}.final_layer_norm.weight"
    if not rest.startswith("layers."):
        return role
    _, layer, part, *behind = rest.split(".")
    return ".".join((side, "block", layer, _t5_module(side, part, behind[0]), behind[-1]))


def _t5_module(side: str, part: str, projection: str) -> str:
    inner = 2 if side == "decoder" else 1
    if part in _T5_ATTENTION:
        return f"{_T5_ATTENTION[part]}.{_T5_PROJECTIONS[projection]}"
    if part in _T5_INNER:
        return f"layer.{inner}.DenseReluDense.{_T5_INNER[part]}"
    number = {"self_attn_layer_norm": 0, "encoder_attn_layer_norm": 1, "final_layer_norm": inner}[part]
    return f"layer.{number}.layer_norm"
