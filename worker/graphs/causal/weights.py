"""
A checkpoint of a causal language model: the sizes of the network, and its tensors by their role.

Knows: config.json and the tensor names of four similar families in Hugging Face checkpoints. Does not know: graphs.

    llama     biases if config.json asks for them        (SmolLM and SmolLM2 are of this family)
    mistral   no biases, a sliding window
    qwen2     biases of queries, keys and values
    qwen3     queries and keys are normalized head by head

Structure: transformers 4.57 modeling_llama.py, modeling_mistral.py, modeling_qwen2.py, modeling_qwen3.py.

Shapes: V vocabulary · D width · F inner width · N heads · K key/value heads · H head size.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.graphs.architectures import CAUSAL_ARCHITECTURES, MARIAN, architecture_of
from worker.graphs.causal.rope import Rope
from worker.graphs.checkpoint_weights import MAX_LAYERS, Weights

_SIZES = (
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "vocab_size",
)
_HEAD_MULTIPLE = 16  # GroupQueryAttention rotates heads of a multiple of this size
_KEY_VALUE_HEADS = {"mistral": 8, "qwen2": 32, "qwen3": 32}  # defaults of transformers
_WINDOW = 4096  # default of transformers for the families with a window

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class CausalSizes:
    """The sizes of a causal network."""

    family: str  # llama | mistral | qwen2 | qwen3
    width: int  # D
    heads: int  # N
    kv_heads: int  # K
    own_head_size: int  # H of the checkpoint
    layers: int  # L
    inner_width: int  # F
    vocab_size: int  # V: rows of the embeddings; a tokenizer may use fewer
    max_positions: int
    epsilon: float  # of all normalizations
    rope: Rope
    windows: tuple[int | None, ...]  # by layer: a token attends to itself and the window - 1 before it; None: to all
    tied_head: bool  # the head is the embeddings
    qkv_bias: bool
    out_bias: bool
    inner_bias: bool
    normalizes_heads: bool

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> Self:
        """The sizes, from config.json. Raises ModelError that names what is missing or not supported."""
        family = _family_of(config)
        try:
            sizes = {name: int(config[name]) for name in _SIZES}
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"config.json lacks {error}, or gives it a value that is not a size") from error
        if (layers := sizes["num_hidden_layers"]) > MAX_LAYERS:
            raise ModelError(f"config.json asks for {layers:,} layers; at most {MAX_LAYERS:,} are supported")
        if (activation := config.get("hidden_act", "silu")) not in ("silu", "swish"):  # two names of the same function
            raise ModelError(f"config.json says hidden_act = {activation}; only silu is supported")
        width, heads = sizes["hidden_size"], sizes["num_attention_heads"]
        kv_heads = int(config.get("num_key_value_heads") or _KEY_VALUE_HEADS.get(family, heads))
        if min(*sizes.values(), kv_heads) < 1 or heads % kv_heads:
            raise ModelError(
                f"config.json says {heads} attention heads, which is not a multiple of its {kv_heads} key/value heads"
            )
        head_size = int(config.get("head_dim") or (128 if family == "qwen3" else width // heads))
        if head_size % 2 or head_size < 2:
            raise ModelError(f"config.json gives heads of size {head_size}; rotary positions need an even size")
        max_positions = sizes["max_position_embeddings"]
        has_bias = bool(config.get("attention_bias", False)) and family in ("llama", "qwen3")
        return cls(
            family=family,
            width=width,
            heads=heads,
            kv_heads=kv_heads,
            own_head_size=head_size,
            layers=sizes["num_hidden_layers"],
            inner_width=sizes["intermediate_size"],
            vocab_size=sizes["vocab_size"],
            max_positions=max_positions,
            epsilon=float(config.get("rms_norm_eps", 1e-6)),
            rope=Rope.read(config, head_size, max_positions),
            windows=_windows(config, family, sizes["num_hidden_layers"], max_positions),
            tied_head=bool(config.get("tie_word_embeddings", False)),
            qkv_bias=has_bias or family == "qwen2",
            out_bias=has_bias,
            inner_bias=bool(config.get("mlp_bias", False)) and family == "llama",
            normalizes_heads=family == "qwen3",
        )

    @property
    def head_size(self) -> int:
        """H: padded with zeros to a size that GroupQueryAttention can rotate."""
        return -(-self.own_head_size // _HEAD_MULTIPLE) * _HEAD_MULTIPLE

    @property
    def attention_width(self) -> int:
        """N x H."""
        return self.heads * self.head_size

    @property
    def attention_scale(self) -> float:
        """The factor of the products of queries and keys, by the head size without padding."""
        return float(self.own_head_size**-0.5)

    @property
    def has_window(self) -> bool:
        """Whether some layer has a sliding window."""
        return any(window is not None for window in self.windows)


def _family_of(config: Mapping[str, Any]) -> str:
    """Raise ModelError that names the known families where a config.json is of none of them."""
    family = architecture_of(config)
    if family is not None and family != MARIAN:
        return family
    named = config.get("architectures") or []
    what = ", ".join(map(str, named)) if isinstance(named, list) and named else config.get("model_type")
    raise ModelError(
        f"the architecture {what or '(config.json names none)'} is not supported; supported are "
        f"{', '.join(CAUSAL_ARCHITECTURES)}"
    )


def _windows(config: Mapping[str, Any], family: str, layers: int, max_positions: int) -> tuple[int | None, ...]:
    window = config.get("sliding_window", _WINDOW)
    if family == "llama" or (family != "mistral" and not config.get("use_sliding_window", False)):
        window = None
    kinds = config.get("layer_types") if family != "mistral" else None
    if kinds is None:
        first = 0 if family == "mistral" else int(config.get("max_window_layers", 28))
        kinds = ["sliding_attention" if layer >= first else "full_attention" for layer in range(layers)]
    if not isinstance(kinds, list) or len(kinds) != layers or {*kinds} - {"sliding_attention", "full_attention"}:
        raise ModelError(f"config.json gives layer_types other than {layers} of sliding_attention and full_attention")
    if window is None or int(window) >= max_positions:
        return (None,) * layers
    return tuple(int(window) if kind == "sliding_attention" else None for kind in kinds)


def tensor_names(sizes: CausalSizes) -> frozenset[str]:
    """The tensors of a checkpoint of these sizes, a tied head under both of its names."""
    products = {"q_proj": "self_attn", "k_proj": "self_attn", "v_proj": "self_attn", "o_proj": "self_attn"}
    products |= {"gate_proj": "mlp", "up_proj": "mlp", "down_proj": "mlp"}
    biased = {"q_proj", "k_proj", "v_proj"} if sizes.qkv_bias else set()
    biased |= {"o_proj"} if sizes.out_bias else set()
    biased |= {"gate_proj", "up_proj", "down_proj"} if sizes.inner_bias else set()
    names = {f"{block}.{name}.weight" for name, block in products.items()}
    names |= {f"{products[name]}.{name}.bias" for name in biased}
    names |= {"input_layernorm.weight", "post_attention_layernorm.weight"}
    names |= {"self_attn.q_norm.weight", "self_attn.k_norm.weight"} if sizes.normalizes_heads else set()
    layers = {f"model.layers.{layer}.{name}" for layer in range(sizes.layers) for name in names}
    return frozenset({"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"} | layers)


class CausalWeights:
    """The tensors of a checkpoint, by their role. Heads are padded with zeros, which do not change any result."""

    def __init__(self, weights: Weights, sizes: CausalSizes) -> None:
        self._weights = weights
        self._sizes = sizes

    def qkv(self, layer: int) -> Array:
        """The projections to queries, keys and values, stacked: ((N + 2 K) x H, D)."""
        sizes, name = self._sizes, f"model.layers.{layer}.self_attn"
        parts = (("q_proj", sizes.heads), ("k_proj", sizes.kv_heads), ("v_proj", sizes.kv_heads))
        return np.concatenate(
            [
                self._padded(self._get(f"{name}.{part}.weight", heads * sizes.own_head_size, sizes.width), 0)
                for part, heads in parts
            ]
        )

    def qkv_bias(self, layer: int) -> Array:
        """((N + 2 K) x H,)."""
        sizes, name = self._sizes, f"model.layers.{layer}.self_attn"
        parts = (("q_proj", sizes.heads), ("k_proj", sizes.kv_heads), ("v_proj", sizes.kv_heads))
        return np.concatenate(
            [self._padded(self._get(f"{name}.{part}.bias", heads * sizes.own_head_size), 0) for part, heads in parts]
        )

    def out(self, layer: int) -> Array:
        """(D, N x H)."""
        sizes = self._sizes
        name = f"model.layers.{layer}.self_attn.o_proj.weight"
        return self._padded(self._get(name, sizes.width, sizes.heads * sizes.own_head_size), 1)

    def out_bias(self, layer: int) -> Array:
        """(D,)."""
        return self._get(f"model.layers.{layer}.self_attn.o_proj.bias", self._sizes.width)

    def inner(self, layer: int, name: str) -> Array:
        """gate_proj or up_proj (F, D), or down_proj (D, F)."""
        shape = self._sizes.inner_width, self._sizes.width
        return self._get(f"model.layers.{layer}.mlp.{name}.weight", *(shape[::-1] if name == "down_proj" else shape))

    def inner_bias(self, layer: int, name: str) -> Array:
        """(F,), or of down_proj (D,)."""
        size = self._sizes.width if name == "down_proj" else self._sizes.inner_width
        return self._get(f"model.layers.{layer}.mlp.{name}.bias", size)

    def norm(self, name: str) -> Array:
        """The scale of a normalization (D,): of `norm`, or of a layer's."""
        return self._get(f"model.{name}.weight", self._sizes.width)

    def head_norm(self, layer: int, part: str) -> Array:
        """The scale of the normalization of queries (`q`) or keys (`k`) within a head (H,).

        The graph takes the mean over H elements, padding included; the ratio of the sizes corrects that here.
        """
        sizes = self._sizes
        own = self._get(f"model.layers.{layer}.self_attn.{part}_norm.weight", sizes.own_head_size)
        return self._padded(own * np.float32((sizes.own_head_size / sizes.head_size) ** 0.5), 0)

    def embeddings(self) -> Array:
        """(V, D). A file may have tied tensors under either name."""
        names = ["model.embed_tokens.weight"] + ["lm_head.weight"] * self._sizes.tied_head
        name = next((name for name in names if name in self._weights), names[0])
        return self._get(name, self._sizes.vocab_size, self._sizes.width)

    def head(self) -> Array:
        """(V, D)."""
        if self._sizes.tied_head:
            return self.embeddings()
        return self._get("lm_head.weight", self._sizes.vocab_size, self._sizes.width)

    def rotations(self, num_positions: int) -> tuple[Array, Array]:
        """Cosines and sines (num_positions, H / 2), zeros for the padding of a head."""
        missing = (0, 0), (0, (self._sizes.head_size - self._sizes.own_head_size) // 2)
        cosines, sines = self._sizes.rope.rotations(num_positions)
        return np.pad(cosines, missing), np.pad(sines, missing)

    def _padded(self, tensor: Array, axis: int) -> Array:
        """Append zeros to both halves of each head: an element is rotated with its partner in the other half."""
        sizes = self._sizes
        missing = (sizes.head_size - sizes.own_head_size) // 2
        if not missing:
            return tensor
        shape = tensor.shape
        halves = tensor.reshape(*shape[:axis], -1, sizes.own_head_size // 2, *shape[axis + 1 :])
        padding = [(0, 0)] * halves.ndim
        padding[axis + 1] = (0, missing)
        return np.pad(halves, padding).reshape(*shape[:axis], -1, *shape[axis + 1 :])

    def _get(self, name: str, *shape: int) -> Array:
        if name not in self._weights:
            raise ModelError(f"the checkpoint lacks the tensor {name}: its files do not belong together")
        tensor = np.asarray(self._weights[name], np.float32)
        if tensor.shape != shape:
            raise ModelError(
                f"the tensor {name} has the shape {tensor.shape}, and config.json gives {shape}: the files do not "
                "belong together"
            )
        return tensor
