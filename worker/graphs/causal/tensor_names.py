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
from dataclasses import dataclass, field

from worker.graphs.causal.block import Block

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
class TensorNames:
    """Where a checkpoint has the tensors of each role."""

    embeddings: str = "model.embed_tokens"
    norm: str = "model.norm"  # behind the last layer
    head: str = "lm_head"
    positions: str = ""  # of learned positions; empty: there are none
    embedding_norm: str = ""
    layer: str = "model.layers"  # followed by the number
    parts: Mapping[str, str] = field(default_factory=dict)  # of a layer: the module of each role
    fused: Fused | None = None  # None: queries, keys and values are three tensors
    fuses_gate_up: bool = False
    is_transposed: bool = False  # products are stored as (inputs, outputs), as GPT-2's Conv1D

    def module(self, layer: int, role: str) -> str:
        """The module of a role in a layer, without `.weight`."""
        return f"{self.layer}.{layer}.{self.parts[role]}"

    def of_layer(self, block: Block) -> dict[str, tuple[bool, bool]]:
        """The roles of a layer, and of each whether it has a weight and whether it has a bias."""
        qkv = [QUERIES, KEYS, VALUES] if self.fused is None else [FUSED_QKV]
        inner = [*([FUSED_GATE_UP] if self.fuses_gate_up else [GATE, UP][not block.is_gated :]), DOWN]
        norms = [BEFORE_ATTENTION] * block.norms_before + [AFTER_ATTENTION, AFTER_INNER] * block.norms_after
        norms += [BEFORE_INNER] * (block.norms_before and not block.shares_norm)
        roles = dict.fromkeys(qkv, (True, block.qkv_bias)) | {OUT: (True, block.out_bias)}
        roles |= dict.fromkeys(inner, (True, block.inner_bias))
        roles |= dict.fromkeys(norms, (block.norm_weight, block.norm_bias))
        return roles | (dict.fromkeys((QUERY_NORM, KEY_NORM), (True, False)) if block.head_norm else {})

    def all(self, block: Block, layers: int) -> frozenset[str]:
        """The tensors of a checkpoint with so many layers, a tied head under both of its names."""
        modules = {self.embeddings: (True, False), self.norm: (block.norm_weight, block.norm_bias)}
        modules |= {self.head: (True, block.head_bias)}
        modules |= {self.positions: (True, False)} if self.positions else {}
        modules |= {self.embedding_norm: (True, block.norm_bias)} if block.embedding_norm else {}
        roles = self.of_layer(block)
        modules |= {self.module(layer, role): has for layer in range(layers) for role, has in roles.items()}
        return frozenset(
            f"{module}.{kind}"
            for module, has in modules.items()
            for kind, is_there in zip(("weight", "bias"), has, strict=True)
            if is_there
        )


_ATTENTION = {role: f"self_attn.{role}" for role in (QUERIES, KEYS, VALUES, OUT, QUERY_NORM, KEY_NORM)}
_FEED_FORWARD = {role: f"mlp.{role}" for role in (GATE, UP, DOWN)}
_LLAMA = _ATTENTION | _FEED_FORWARD | {role: role for role in (BEFORE_ATTENTION, BEFORE_INNER)}

LLAMA = TensorNames(parts=_LLAMA)
