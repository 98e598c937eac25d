"""
What the header of a GGUF file says of the network in it, of any architecture: its sizes, how its weights are stored,
whether it gives log-probabilities of a text.

Knows: the keys of the metadata (gguf-py/gguf/constants.py in llama.cpp). Does not know: what an architecture computes.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Self

from jobs.errors import ModelError
from worker.models.checkpoint.gguf_file import GgufFile
from worker.models.checkpoint.gguf_settings import GgufSettings

F32 = "F32"
_CACHE_BYTES = 4  # of a number in the cache: kvjobs keeps keys and values in float32
_SENTENCEPIECE = "llama"  # tokenizer.ggml.model
_ADDS_BOS = {_SENTENCEPIECE: True}  # where the file does not say: src/llama-vocab.cpp in llama.cpp
# Rotary factors for long texts: llama.cpp takes these or the short texts' factors by the size of the whole context.
_LONG_FACTORS = "rope_factors_long.weight"
# Layers that are recurrent (Mamba, RWKV), or that keep a compressed form of keys and values (DeepSeek).
_STATES = ("ssm.", "wkv.", "attention.kv_lora_rank", "shortconv.")


@dataclass(frozen=True, slots=True)
class StoredType:
    """The weights that are stored in one type."""

    name: str  # Q4_K, F32, ...
    num_tensors: int
    num_weights: int
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufNetwork:
    """The network in a GGUF file. None: the header does not say."""

    architecture: str
    label: str  # of the whole file: Q4_K_M, F32, ...
    types: tuple[StoredType, ...]  # that with the most bytes first
    max_positions: int  # the context that it was made for, in tokens
    short_positions: int | None  # the longest text with the rotary factors of short texts
    vocab_size: int
    num_layers: int
    width: int | None
    num_query_heads: int | None
    num_heads: int | None  # of keys and values, the most of any layer
    head_size: int | None  # of keys
    cache_bytes: int | None  # per token, for keys and values in float32 of all layers
    bos_id: int | None
    adds_bos: bool | None  # whether a text gets a BOS; None: llama.cpp has a rule for its vocabulary
    eos_id: int | None

    @property
    def is_float32(self) -> bool:
        """Whether every weight is float32, so that only the order of sums can change a result."""
        return all(stored.name == F32 for stored in self.types)

    @classmethod
    def of(cls, file: GgufFile) -> Self:
        """Raises ModelError where the file holds no whole network, or none that predicts each token from those before
        it."""
        values = GgufSettings(file)
        if values.get("attention.causal") is False or values.get("pooling_type") in (1, 2, 4):
            raise ModelError(
                f"{file.path} holds a model of embeddings ({values.architecture}), which gives no log-probabilities: "
                "take a causal language model"
            )
        tokens = file.metadata.get("tokenizer.ggml.tokens")
        if not isinstance(tokens, list) or not tokens:
            raise ModelError(f"{file.path} has no vocabulary (tokenizer.ggml.tokens), so it cannot read a text")
        types = _stored_types(file)
        heads = values.per_layer("attention.head_count")
        kv_heads = values.per_layer("attention.head_count_kv") or heads
        width, num_layers = values.optional_size("embedding_length"), values.size("block_count")
        key_size = values.optional_size("attention.key_length") or (
            width // max(heads) if width and heads and max(heads) else None
        )
        value_size = values.optional_size("attention.value_length") or key_size
        kind = file.metadata.get("tokenizer.ggml.model")
        adds_bos = file.metadata.get(
            "tokenizer.ggml.add_bos_token", _ADDS_BOS.get(kind if isinstance(kind, str) else "")
        )
        return cls(
            architecture=values.architecture,
            label=_label(file) or types[0].name,
            types=types,
            max_positions=values.size("context_length"),
            short_positions=(
                values.optional_size("rope.scaling.original_context_length") if _LONG_FACTORS in file.tensors else None
            ),
            vocab_size=len(tokens),
            num_layers=num_layers,
            width=width,
            num_query_heads=max(heads) if heads else None,
            num_heads=max(kv_heads) if kv_heads else None,
            head_size=key_size,
            cache_bytes=_cache_bytes(values, num_layers, kv_heads, key_size, value_size),
            bos_id=_token(file, "bos_token_id", 1 if kind == _SENTENCEPIECE else None),
            adds_bos=adds_bos if isinstance(adds_bos, bool) else None,
            eos_id=_token(file, "eos_token_id", 2 if kind == _SENTENCEPIECE else None),
        )

    def config(self) -> dict[str, Any]:
        """The sizes by their names in a config.json."""
        values = {
            "head_dim": self.head_size,
            "hidden_size": self.width,
            "max_position_embeddings": self.max_positions,
            "model_type": self.architecture,
            "num_attention_heads": self.num_query_heads,
            "num_hidden_layers": self.num_layers,
            "num_key_value_heads": self.num_heads,
            "vocab_size": self.vocab_size,
        }
        return {name: value for name, value in values.items() if value}


def _label(file: GgufFile) -> str | None:
    """The mix of types that the file was quantized to: Q4_K_M, F32, ...; None where it names none that is known."""
    from gguf import LlamaFileType

    try:
        name: str = LlamaFileType(file.metadata.get("general.file_type")).name
    except ValueError:
        return None
    return name.removeprefix("MOSTLY_").removeprefix("ALL_")


def _stored_types(file: GgufFile) -> tuple[StoredType, ...]:
    tensors: Counter[str] = Counter()
    weights: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for tensor in file.tensors.values():
        tensors[tensor.type] += 1
        weights[tensor.type] += tensor.num_weights
        sizes[tensor.type] += tensor.num_bytes
    in_order = sorted(tensors, key=lambda name: (-sizes[name], name))
    return tuple(StoredType(name, tensors[name], weights[name], sizes[name]) for name in in_order)


def _cache_bytes(
    values: GgufSettings, num_layers: int, kv_heads: list[int], key_size: int | None, value_size: int | None
) -> int | None:
    """Bytes of keys and values per token; None where a layer keeps another state than keys and values."""
    if not kv_heads or not key_size or not value_size or values.begins(*_STATES):
        return None
    heads = sum(kv_heads) if len(kv_heads) == num_layers else kv_heads[0] * num_layers
    return heads * (key_size + value_size) * _CACHE_BYTES


def _token(file: GgufFile, key: str, default: int | None) -> int | None:
    value = file.metadata.get(f"tokenizer.ggml.{key}", default)
    return value if type(value) is int else None
