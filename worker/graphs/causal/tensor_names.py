"""
The tensors of a causal checkpoint by their role: a table for each way in which checkpoints name them.

Knows: names. Does not know: shapes, files, which family uses which table.

A role is the name of a module within a layer, as Llama names it; a module has a `weight`, and perhaps a `bias`.

    input_layernorm             before attention
    attended_norm               after attention, before it is added to the residual
    post_attention_layernorm    before the feed-forward
    inner_norm                  after the feed-forward
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from worker.graphs.causal.block import CausalBlock

QUERIES, KEYS, VALUES, OUT = "q_proj", "k_proj", "v_proj", "o_proj"
GATE, UP, DOWN = "gate_proj", "up_proj", "down_proj"
BEFORE_ATTENTION, AFTER_ATTENTION = "input_layernorm", "attended_norm"
BEFORE_INNER, AFTER_INNER = "post_attention_layernorm", "inner_norm"
QUERY_NORM, KEY_NORM = "q_norm", "k_norm"
FUSED_QKV, FUSED_GATE_UP = "qkv", "gate_up"


class Fused(enum.StrEnum):
    """The order of the rows of a projection to queries, keys and values in one."""

    STACKED = "stacked"  # all queries, all keys, all values
    GROUPED = "grouped"  # of each key/value head: its queries, its key, its value


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalTensorNames:
    """The names of a checkpoint's tensors, by role."""

    embeddings: str = "model.embed_tokens"
    norm: str = "model.norm"  # behind the last layer
    head: str = "lm_head"
    positions: str = ""  # of learned positions; empty: there are none
    embedding_norm: str = ""
    project_in: str = ""  # the projection from the embeddings' width to the network's; empty: the widths are equal
    project_out: str = ""  # the projection back, before the head
    layer: str = "model.layers"  # followed by the number
    parts: dict[str, str] = field(default_factory=dict)  # of a layer: the module of each role
    fused: Fused | None = None  # None: queries, keys and values are three tensors
    fuses_gate_up: bool = False
    is_transposed: bool = False  # products are stored as (inputs, outputs), as GPT-2's Conv1D

    def module(self, layer: int, role: str) -> str:
        """The module of a role in a layer, without `.weight`."""
        return f"{self.layer}.{layer}.{self.parts[role]}"

    def modules(self, layer: int, role: str, head_norms: Mapping[str, int]) -> list[str]:
        """The modules of a role in a layer: a single one, or one for each head. `head_norms`: how many norms of their
        own the heads of a role have."""
        module = self.module(layer, role)
        return [f"{module}.norms.{head}" for head in range(head_norms[role])] if role in head_norms else [module]

    def of_layer(self, block: CausalBlock) -> dict[str, tuple[bool, bool]]:
        """The roles of a layer, and of each whether it has a weight and whether it has a bias."""
        qkv = [QUERIES, KEYS, VALUES] if self.fused is None else [FUSED_QKV]
        inner = [*([FUSED_GATE_UP] if self.fuses_gate_up else [GATE, UP][not block.is_gated :]), DOWN]
        has_after = block.norms_after or block.norms_of_sums
        norms = [BEFORE_ATTENTION] * block.norms_before + [AFTER_ATTENTION, AFTER_INNER] * has_after
        norms += [BEFORE_INNER] * (block.norms_before and not block.shares_norm)
        roles = dict.fromkeys(qkv, (True, block.qkv_bias)) | {OUT: (True, block.out_bias)}
        roles |= dict.fromkeys(inner, (True, block.inner_bias))
        roles |= dict.fromkeys(norms, (block.norm_weight, block.norm_bias))
        of_heads = (QUERY_NORM, KEY_NORM) if block.head_norm else ()
        return roles | dict.fromkeys(of_heads, (True, block.head_norm_bias))


_ATTENTION = {role: f"self_attn.{role}" for role in (QUERIES, KEYS, VALUES, OUT, QUERY_NORM, KEY_NORM)}
_GATED = {role: f"mlp.{role}" for role in (GATE, UP, DOWN)}
_WIDENED = {UP: "mlp.dense_h_to_4h", DOWN: "mlp.dense_4h_to_h"}
_NORMS = {role: role for role in (BEFORE_ATTENTION, BEFORE_INNER)}

_HEAD_LAYER_NORMS = {QUERY_NORM: "self_attn.q_layernorm", KEY_NORM: "self_attn.k_layernorm"}

LLAMA = CausalTensorNames(parts=_ATTENTION | _GATED | _NORMS)
STABLELM = replace(LLAMA, parts=LLAMA.parts | _HEAD_LAYER_NORMS)
OLMO2 = CausalTensorNames(
    parts=_ATTENTION | _GATED | {AFTER_ATTENTION: "post_attention_layernorm", AFTER_INNER: "post_feedforward_layernorm"}
)
GEMMA2 = CausalTensorNames(
    parts=_ATTENTION
    | _GATED
    | {
        BEFORE_ATTENTION: "input_layernorm",
        AFTER_ATTENTION: "post_attention_layernorm",
        BEFORE_INNER: "pre_feedforward_layernorm",
        AFTER_INNER: "post_feedforward_layernorm",
    }
)
PHI3 = CausalTensorNames(
    parts=_NORMS
    | {
        FUSED_QKV: "self_attn.qkv_proj",
        OUT: "self_attn.o_proj",
        FUSED_GATE_UP: "mlp.gate_up_proj",
        DOWN: "mlp.down_proj",
    },
    fused=Fused.STACKED,
    fuses_gate_up=True,
)
PHI = CausalTensorNames(
    norm="model.final_layernorm",
    parts=_ATTENTION
    | _HEAD_LAYER_NORMS
    | {OUT: "self_attn.dense", UP: "mlp.fc1", DOWN: "mlp.fc2", BEFORE_ATTENTION: "input_layernorm"},
)
GPT_NEOX = CausalTensorNames(
    embeddings="gpt_neox.embed_in",
    norm="gpt_neox.final_layer_norm",
    head="embed_out",
    layer="gpt_neox.layers",
    parts=_WIDENED | _NORMS | {FUSED_QKV: "attention.query_key_value", OUT: "attention.dense"},
    fused=Fused.GROUPED,
)
GPT2 = CausalTensorNames(
    embeddings="transformer.wte",
    norm="transformer.ln_f",
    positions="transformer.wpe",
    layer="transformer.h",
    parts={
        BEFORE_ATTENTION: "ln_1",
        FUSED_QKV: "attn.c_attn",
        OUT: "attn.c_proj",
        BEFORE_INNER: "ln_2",
        UP: "mlp.c_fc",
        DOWN: "mlp.c_proj",
    },
    fused=Fused.STACKED,
    is_transposed=True,
)
OPT = CausalTensorNames(
    embeddings="model.decoder.embed_tokens",
    norm="model.decoder.final_layer_norm",
    positions="model.decoder.embed_positions",
    layer="model.decoder.layers",
    parts=_ATTENTION
    | {
        OUT: "self_attn.out_proj",
        UP: "fc1",
        DOWN: "fc2",
        BEFORE_ATTENTION: "self_attn_layer_norm",
        BEFORE_INNER: "final_layer_norm",
    },
)
OPT_OF_SUMS = replace(
    OPT,
    parts={role: name for role, name in OPT.parts.items() if role not in (BEFORE_ATTENTION, BEFORE_INNER)}
    | {AFTER_ATTENTION: "self_attn_layer_norm", AFTER_INNER: "final_layer_norm"},
)
BLOOM = CausalTensorNames(
    embeddings="transformer.word_embeddings",
    norm="transformer.ln_f",
    embedding_norm="transformer.word_embeddings_layernorm",
    layer="transformer.h",
    parts=_WIDENED | _NORMS | {FUSED_QKV: "self_attention.query_key_value", OUT: "self_attention.dense"},
    fused=Fused.GROUPED,
)
FALCON = replace(BLOOM, embedding_norm="")
FALCON_TWO_NORMS = replace(FALCON, parts=FALCON.parts | {BEFORE_ATTENTION: "ln_attn", BEFORE_INNER: "ln_mlp"})
