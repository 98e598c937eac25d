"""
The network in a GGUF file: its configuration as a config.json of transformers would give it, and its weights by their
names there.

Knows: keys and tensors of three architectures as llama.cpp's converter writes them (conversion/llama.py, qwen.py; names
in gguf-py/gguf/constants.py). Does not know: tokenizers, graphs.

    llama    Llama, SmolLM, and Mistral (whose sliding window the format leaves out)
    qwen2    biases of queries, keys and values
    qwen3    queries and keys are normalized head by head

A `llama` file has the rows of queries and keys in another order: llama.cpp rotates neighbours where transformers
rotates the halves of a head. Here they get the order of transformers.

Whatever is not known is refused: it might change what the network computes.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from jobs.errors import ModelError
from worker.graphs.architectures import CAUSAL_ARCHITECTURES
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.causal.weights import tensor_names
from worker.models.checkpoint.gguf_file import READ_TYPES, GgufFile, GgufTensor
from worker.models.checkpoint.tensor_files import Weight

_ARCHITECTURES = ("llama", "qwen2", "qwen3")
_PERMUTED = ("llama",)  # LLAMA_ROPE_TYPE_NORM in llama.cpp's llama-model.cpp
_CONVERT = "convert it again as F16 or Q8_0 (convert_hf_to_gguf.py --outtype), or add the checkpoint it was made from"
_NUM_SHOWN = 3  # names in an error message

# Our name of a size -> the key behind the architecture.
_SIZES = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
    "num_attention_heads": "attention.head_count",
    "num_hidden_layers": "block_count",
}
_OTHERS = {
    "attention.head_count_kv", "attention.key_length", "attention.layer_norm_rms_epsilon", "attention.value_length",
    "rope.dimension_count", "rope.freq_base", "rope.scaling.factor", "rope.scaling.finetuned",
    "rope.scaling.original_context_length", "rope.scaling.type", "vocab_size",
}  # fmt: skip
# Keys that may only say what is computed anyway.
_HARMLESS = {
    "attention.causal": True,
    "expert_count": 0,
    "expert_used_count": 0,
    "pooling_type": 0,
    "rope.scaling.attn_factor": 1.0,
}
_MAX_POSITIONS = 1 << 20  # 1 GiB of rotations with heads of 128; Qwen2.5-1M has 1,010,000

_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
LAYER_NAMES = {  # of llama.cpp, and of transformers
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_ROPE_FREQS = "rope_freqs.weight"


class NoGraphsError(ModelError):
    """The file may be whole and sound, but no graphs are built of such a model."""


def read_config(file: GgufFile, *, any_type: bool = False) -> dict[str, Any]:
    """What the config.json of the checkpoint would say; raise NoGraphsError for what no graph can be built of, and
    ModelError for a file that is damaged, or holds no whole model.

    `any_type`: also for weights in types that only the package `gguf` reads.
    """
    architecture = _architecture(file)
    if not any_type:
        _refuse_types(file)
    values = _Values(file, architecture)
    values.refuse_unknown()
    config: dict[str, Any] = {name: values.size(key) for name, key in _SIZES.items()}
    if config["max_position_embeddings"] > _MAX_POSITIONS:
        raise ModelError(
            f"{file.path} says {architecture}.context_length = {config['max_position_embeddings']:,}; at most "
            f"{_MAX_POSITIONS:,} positions are supported"
        )
    heads = config["num_attention_heads"]
    head_size = values.size("attention.key_length", config["hidden_size"] // heads)
    for key in ("attention.value_length", "rope.dimension_count"):
        if values.size(key, head_size) != head_size:
            raise NoGraphsError(
                f"{file.path} says {architecture}.{key} = {values.size(key)} with heads of size {head_size}; only "
                "equal sizes are supported"
            )
    if "token_embd.weight" not in file.tensors:
        raise ModelError(f"{file.path} has no tensor token_embd.weight: it holds no whole model (a vocabulary alone?)")
    base = values.real("rope.freq_base", 10_000.0)
    config |= {
        "architectures": [name for name, family in CAUSAL_ARCHITECTURES.items() if family == architecture],
        "attention_bias": architecture == "llama" and "blk.0.attn_q.bias" in file.tensors,
        "head_dim": head_size,
        "hidden_act": "silu",
        "mlp_bias": architecture == "llama" and "blk.0.ffn_gate.bias" in file.tensors,
        "model_type": architecture,
        "num_key_value_heads": values.size("attention.head_count_kv", heads),
        "rms_norm_eps": values.real("attention.layer_norm_rms_epsilon"),
        "rope_scaling": _rope_scaling(file, values, base, head_size),
        "rope_theta": base,
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "vocab_size": file.tensors["token_embd.weight"].shape[0],
    }
    for name in ("bos_token_id", "eos_token_id"):
        token_id = file.metadata.get(f"tokenizer.ggml.{name}")
        config[name] = token_id if type(token_id) is int else None
    return config


def read_weights(file: GgufFile, config: Mapping[str, Any]) -> "GgufWeights":
    """The weights by their names in transformers; raise ModelError where some are missing, or would not be read.

    `config`: of `read_config`.
    """
    try:
        sizes = read_sizes(config)
    except ModelError as error:
        raise ModelError(f"{file.path}: {str(error).replace('config.json', 'its metadata')}") from error
    known = tensor_names(sizes)
    found = {_name_of(name): tensor for name, tensor in file.tensors.items()}
    unread = sorted(tensor.name for name, tensor in found.items() if name not in known and tensor.name != _ROPE_FREQS)
    if unread:
        raise NoGraphsError(
            f"{file.path} has tensors that are not part of a {sizes.family} network ({_listed(unread)}), so its graph "
            "would compute something else: take the checkpoint that it was made from"
        )
    missing = known - found.keys() - ({"lm_head.weight"} if sizes.tied_head else set())
    if missing:
        raise ModelError(f"{file.path} lacks weights of its network ({_listed(sorted(missing))}): download it again")
    heads = {"q_proj": sizes.heads, "k_proj": sizes.kv_heads} if sizes.family in _PERMUTED else {}
    for name, tensor in found.items():
        if name in known and tensor.shape != (shape := _shape(name, sizes)):
            raise ModelError(
                f"{file.path} has the tensor {tensor.name} of the shape {tensor.shape}, and its metadata give {shape}: "
                "it is damaged; download it again"
            )
    return GgufWeights({name: tensor for name, tensor in found.items() if name in known}, heads)


class GgufWeights(Mapping[str, Weight]):
    """Weights by name, as float32. Each access reads one tensor from the disk; none is cached."""

    def __init__(self, tensors: Mapping[str, GgufTensor], permuted: Mapping[str, int]) -> None:
        """`permuted`: q_proj and k_proj with their number of heads, where their rows are to be reordered."""
        self._tensors = tensors
        self._permuted = permuted

    def __getitem__(self, name: str) -> Weight:
        weight = self._tensors[name].read()
        heads = self._permuted.get(_part(name))
        return weight if heads is None else _unpermuted(weight, heads)

    def __contains__(self, name: object) -> bool:  # Mapping's own reads the tensor
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def _unpermuted(weight: Weight, heads: int) -> Weight:
    """Rows of each head from pairs of neighbours to halves, for weights and biases: the inverse of `permute` in
    llama.cpp's conversion/llama.py.

        a0 b0 a1 b1 a2 b2  ->  a0 a1 a2 b0 b1 b2
    """
    return weight.reshape(heads, -1, 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def _shape(name: str, sizes: CausalSizes) -> tuple[int, ...]:
    """The shape that a tensor has in a network of these sizes; a bias has the first dimension of its product."""
    queries, keys = sizes.heads * sizes.own_head_size, sizes.kv_heads * sizes.own_head_size
    products = {
        "q_proj": (queries, sizes.width),
        "k_proj": (keys, sizes.width),
        "v_proj": (keys, sizes.width),
        "o_proj": (sizes.width, queries),
        "gate_proj": (sizes.inner_width, sizes.width),
        "up_proj": (sizes.inner_width, sizes.width),
        "down_proj": (sizes.width, sizes.inner_width),
        "embed_tokens": (sizes.vocab_size, sizes.width),
        "lm_head": (sizes.vocab_size, sizes.width),
        "q_norm": (sizes.own_head_size,),
        "k_norm": (sizes.own_head_size,),
    }
    shape = products.get(_part(name), (sizes.width,))
    return shape[:1] if name.endswith(".bias") else shape


def _part(name: str) -> str:
    """q_proj of model.layers.0.self_attn.q_proj.weight."""
    return name.rpartition(".")[0].rpartition(".")[2]


def _name_of(name: str) -> str:
    """The name of a tensor in transformers; one that no tensor has there where it is not known."""
    parts = name.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[1].isdecimal() and parts[2] in LAYER_NAMES:
        return f"model.layers.{parts[1]}.{LAYER_NAMES[parts[2]]}.{parts[3]}"
    return _NAMES.get(name, f"({name})")


def _architecture(file: GgufFile) -> str:
    kind = file.metadata.get("general.type", "model")
    if kind != "model":
        raise ModelError(f"{file.path} holds no whole model (general.type is {kind!r:.40}): name the file of the model")
    if (num_files := file.metadata.get("split.count", 0)) not in (0, 1):
        raise ModelError(
            f"{file.path} is one of {num_files!r:.40} parts of a model: join them with `llama-gguf-split --merge`, and "
            "add the result"
        )
    architecture = file.metadata.get("general.architecture")
    if architecture not in _ARCHITECTURES:
        raise NoGraphsError(
            f"{file.path} has the architecture {architecture!r:.40}; of GGUF files, graphs are built of "
            f"{', '.join(_ARCHITECTURES)}; of another causal language model `kvjobs models add` takes an ONNX export"
        )
    return str(architecture)


def _refuse_types(file: GgufFile) -> None:
    others = sorted({tensor.type for tensor in file.tensors.values()} - {*READ_TYPES})
    if others:
        raise NoGraphsError(
            f"{file.path} holds weights as {', '.join(others)}; graphs are built of {', '.join(READ_TYPES)}: "
            f"{_CONVERT}, with --precision int8 if it should be small"
        )


class _Values:
    """The metadata of an architecture; raises ModelError for a value that is missing or of another form."""

    def __init__(self, file: GgufFile, architecture: str) -> None:
        self._file = file
        prefix = f"{architecture}."
        self._values = {
            key.removeprefix(prefix): value for key, value in file.metadata.items() if key.startswith(prefix)
        }
        self._prefix = prefix

    def refuse_unknown(self) -> None:
        known = {*_SIZES.values(), *_OTHERS}
        unknown = sorted(
            f"{self._prefix}{key} = {value!r:.40}"
            for key, value in self._values.items()
            if key not in known and (key not in _HARMLESS or value != _HARMLESS[key])
        )
        if unknown:
            raise NoGraphsError(
                f"{self._file.path} has settings that are not supported ({_listed(unknown)}), and may compute "
                "something else than the graph would: add the checkpoint that it was made from"
            )

    def get(self, key: str) -> Any:
        return self._values.get(key)

    def size(self, key: str, default: int | None = None) -> int:
        value = self._values.get(key, default)
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]  # one for each layer
        if type(value) is not int or value < 1:
            raise ModelError(f"{self._file.path} says {self._prefix}{key} = {value!r:.60}, which is not a size")
        return value

    def real(self, key: str, default: float | None = None) -> float:
        value = self._values.get(key, default)
        if type(value) is not float or not 0 < value < math.inf:
            raise ModelError(
                f"{self._file.path} says {self._prefix}{key} = {value!r:.60}, which is not a positive number"
            )
        return float(str(np.float32(value)))  # 1e-06 instead of 9.999999974752427e-07: the same float32


def _rope_scaling(file: GgufFile, values: _Values, base: float, head_size: int) -> dict[str, Any] | None:
    """`rope_scaling` of config.json: none, linear, yarn, or llama3 as the tensor rope_freqs says."""
    kind = values.get("rope.scaling.type") or "none"
    if _ROPE_FREQS in file.tensors:
        if kind != "none":
            raise ModelError(f"{file.path} has both {_ROPE_FREQS} and rope.scaling.type = {kind!r}; one is supported")
        return _llama3(file, base, head_size)
    match kind:
        case "none":
            return None
        case "linear":
            return {"rope_type": "linear", "factor": values.real("rope.scaling.factor")}
        case "yarn":
            return {
                "rope_type": "yarn",
                "factor": values.real("rope.scaling.factor"),
                "original_max_position_embeddings": values.size("rope.scaling.original_context_length"),
            }
    raise NoGraphsError(
        f"{file.path} says rope.scaling.type = {kind!r:.40}; supported are none, linear, yarn and Llama 3's: add the "
        "checkpoint that it was made from"
    )


def _llama3(file: GgufFile, base: float, head_size: int) -> dict[str, Any] | None:
    """The scaling of Llama 3.1 and later, whose settings the file gives only as the divisor of each frequency.

    They are found by trial: with the low and high factor that all published models have, and each power of two as the
    original context. Raises ModelError where none of them gives the divisors of the file.
    """
    divisors = file.tensors[_ROPE_FREQS].read()
    if divisors.shape != (head_size // 2,) or not (np.isfinite(divisors).all() and (divisors > 0).all()):
        raise ModelError(f"{file.path} has an invalid {_ROPE_FREQS}: download it again")
    if (divisors == 1).all():
        return None
    factor, low, high = float(divisors.max()), 1.0, 4.0
    frequencies = 1.0 / base ** (np.arange(0, head_size, 2) / head_size)
    for original in sorted((1 << power for power in range(4, 24)), key=lambda length: length != 8192):
        rotations = original * frequencies / (2 * math.pi)
        kept = np.clip((rotations - low) / (high - low), 0, 1)
        if np.allclose(divisors, 1 / (kept + (1 - kept) / factor), rtol=1e-5, atol=0):
            return {
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low,
                "high_freq_factor": high,
                "original_max_position_embeddings": original,
            }
    raise NoGraphsError(
        f"{file.path} scales positions (by its tensor {_ROPE_FREQS}) in another way than Llama 3 does: add the "
        "checkpoint that it was made from"
    )


def _listed(names: list[str]) -> str:
    more = len(names) - _NUM_SHOWN
    return ", ".join(names[:_NUM_SHOWN]) + (f" and {more} more" if more > 0 else "")
