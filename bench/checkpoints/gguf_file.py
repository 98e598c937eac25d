"""A checkpoint of a causal family as a GGUF file, which llama.cpp reads.

    python -m bench.checkpoints.gguf_file CHECKPOINT FILE f32|f16|bf16|q8_0|q5_1|q4_0

Names of tensors and keys: the package `gguf` of llama.cpp; what changes of tensors: its conversion/*.py, whose files of
the tests' tiny checkpoints have the same settings and tensors. Without a `pre`, the file has no vocabulary: ids go in,
logits come out. Products in q8_0 and the like, as llama.cpp's own quantizer does it; norms and biases stay in float32.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import safetensors
from numpy.typing import NDArray

from worker.graphs.causal.block import Norm
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.sizes import CausalSizes

PRECISIONS = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "bf16": gguf.GGMLQuantizationType.BF16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q5_1": gguf.GGMLQuantizationType.Q5_1,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
}
# By model_type, where llama.cpp has another name for it.
_ARCHITECTURES = {"mistral": "llama", "gemma3_text": "gemma3", "gpt_neox": "gptneox", "phi": "phi2"}
_PERMUTED = ("llama", "granite", "olmo", "smollm3")  # rotates neighbours, where transformers rotates halves
_STACKED = ("gptneox", "bloom", "falcon")  # all queries, all keys, all values, where checkpoints have groups of heads


def write_gguf(checkpoint: Path, file: Path, precision: str, *, pre: str | None = None, **values: Any) -> None:
    """Write `file` of a checkpoint in float32.

    `pre`: name of the pre-tokenizer (tokenizer.ggml.pre), to write the vocabulary of a byte-level tokenizer.json.
    `values`: numbers and strings to set in the metadata, by key with `__` for `.`.
    """
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    sizes = read_sizes(config)
    architecture = _ARCHITECTURES.get(sizes.family, sizes.family)
    writer = gguf.GGUFWriter(file, architecture)
    _add_sizes(writer, config, sizes)
    _OWN_SETTINGS.get(architecture, lambda *_: None)(writer, config, sizes)
    _add_vocabulary(writer, checkpoint, pre, sizes.vocab_size)
    for key, value in values.items():
        kind = gguf.GGUFValueType.UINT32 if type(value) is int else gguf.GGUFValueType.get_type(value)
        writer.kv_data[0].pop(key := key.replace("__", "."), None)
        writer.add_key_value(key, value, kind)
    _add_scaling(writer, config, sizes.own_head_size)
    number = next(number for number, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(number, sizes.layers)
    with safetensors.safe_open(checkpoint / "model.safetensors", "numpy") as weights:
        for name in weights.keys():  # noqa: SIM118 - a file, not a mapping
            array = _converted(weights.get_tensor(name), name, architecture, sizes)
            ends = (".weight", ".bias")
            new_name = names.get_name(name, ends) or names.get_name(name.removeprefix("transformer."), ends)
            kind = PRECISIONS[precision] if array.ndim == 2 else gguf.GGMLQuantizationType.F32
            writer.add_tensor(new_name, gguf.quants.quantize(np.ascontiguousarray(array), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_sizes(writer: gguf.GGUFWriter, config: dict[str, Any], sizes: CausalSizes) -> None:
    writer.add_block_count(sizes.layers)
    writer.add_context_length(config.get("max_position_embeddings", sizes.max_positions))
    writer.add_embedding_length(sizes.width)
    writer.add_feed_forward_length(sizes.inner_width)
    writer.add_head_count(sizes.heads)
    writer.add_head_count_kv(sizes.kv_heads)
    writer.add_key_length(sizes.own_head_size)
    writer.add_value_length(sizes.own_head_size)
    is_layer = sizes.block.norm is Norm.LAYER
    (writer.add_layer_norm_eps if is_layer else writer.add_layer_norm_rms_eps)(sizes.block.epsilon)
    if sizes.rotated:
        writer.add_rope_dimension_count(sizes.rotated)
        writer.add_rope_freq_base(config.get("rope_theta") or config.get("rotary_emb_base") or _base(sizes.family))
    writer.add_vocab_size(sizes.vocab_size)


def _base(family: str) -> float:
    """The default of transformers."""
    return {"smollm3": 2e6, "gemma3_text": 1e6}.get(family, 1e4)


def _granite(writer: gguf.GGUFWriter, config: dict[str, Any], sizes: CausalSizes) -> None:
    writer.add_attention_scale(config["attention_multiplier"])
    writer.add_embedding_scale(config.get("embedding_multiplier", 1.0))
    writer.add_residual_scale(config["residual_multiplier"])
    writer.add_logit_scale(config["logits_scaling"])


def _parallel(writer: gguf.GGUFWriter, config: dict[str, Any], sizes: CausalSizes) -> None:
    writer.add_parallel_residual(sizes.block.is_parallel)


def _phi3(writer: gguf.GGUFWriter, config: dict[str, Any], sizes: CausalSizes) -> None:
    writer.add_sliding_window(config.get("sliding_window") or 0)
    writer.add_rope_scaling_orig_ctx_len(original := config.get("original_max_position_embeddings", 4096))
    scaling = config.get("rope_scaling") or {}
    if "short_factor" in scaling:
        longer = config["max_position_embeddings"] / original
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(longer) / math.log(original)))
        for kind in ("long", "short"):
            writer.add_tensor(f"rope_factors_{kind}.weight", np.array(scaling[f"{kind}_factor"], np.float32))


def _gemma2(writer: gguf.GGUFWriter, config: dict[str, Any], sizes: CausalSizes) -> None:
    if sizes.block.attention_cap:
        writer.add_attn_logit_softcapping(sizes.block.attention_cap)
    if sizes.block.logit_cap:
        writer.add_final_logit_softcapping(sizes.block.logit_cap)
    writer.add_sliding_window(config["sliding_window"])


_OWN_SETTINGS = {
    "granite": _granite,
    "olmo": lambda writer, config, sizes: writer.add_clamp_kqv(config["clip_qkv"]),
    "stablelm": _parallel,
    "phi3": _phi3,
    "gptneox": _parallel,
    "falcon": lambda writer, config, sizes: writer.add_tensor_data_layout("jploski"),
    "gemma2": _gemma2,
    "gemma3": _gemma2,
}


def _converted(array: NDArray[Any], name: str, architecture: str, sizes: CausalSizes) -> NDArray[Any]:
    """A tensor of the checkpoint as llama.cpp has it."""
    if sizes.block.norm_adds_one and name.endswith("norm.weight"):
        return array + np.float32(1)
    if architecture in _PERMUTED and (".q_proj." in name or ".k_proj." in name):
        return permute(array, sizes.heads if ".q_proj." in name else sizes.kv_heads)
    if architecture in _STACKED and ".query_key_value." in name:
        groups = array.reshape(sizes.kv_heads, -1, sizes.own_head_size, *array.shape[1:])
        parts = (groups[:, :-2], groups[:, -2], groups[:, -1])
        return np.concatenate([part.reshape(-1, *array.shape[1:]) for part in parts])
    is_transposed = sizes.tensors.is_transposed and f"{sizes.tensors.layer}." in name
    return array.T if is_transposed else array


def permute(array: NDArray[Any], heads: int) -> NDArray[Any]:
    """Rows of each head from halves to neighbours, as llama.cpp's conversion/llama.py does it."""
    return array.reshape(heads, 2, len(array) // heads // 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def rope_factors(scaling: dict[str, Any], base: float, head_size: int) -> NDArray[np.float32]:
    """The tensor rope_freqs of Llama 3's scaling, as llama.cpp's conversion/llama.py computes it: (head_size / 2,)."""
    factor, low, high = scaling["factor"], scaling["low_freq_factor"], scaling["high_freq_factor"]
    original = scaling["original_max_position_embeddings"]
    factors = []
    for place in range(0, head_size, 2):
        wavelength = 2 * math.pi * base ** (place / head_size)
        if wavelength < original / high:
            factors.append(1.0)
        elif wavelength > original / low:
            factors.append(factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, np.float32)


def _add_scaling(writer: gguf.GGUFWriter, config: dict[str, Any], head_size: int) -> None:
    scaling = config.get("rope_scaling") or {}
    match scaling.get("rope_type") or scaling.get("type"):
        case "llama3":
            writer.add_tensor("rope_freqs.weight", rope_factors(scaling, config["rope_theta"], head_size))
        case "linear":
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(scaling["factor"])
        case "yarn":
            writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            writer.add_rope_scaling_factor(scaling["factor"])
            writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])


def _add_vocabulary(writer: gguf.GGUFWriter, checkpoint: Path, pre: str | None, vocab_size: int) -> None:
    if pre is None:
        writer.add_tokenizer_model("no_vocab")
        return
    tokenizer = json.loads((checkpoint / "tokenizer.json").read_text(encoding="utf-8"))
    added = {token["id"]: token for token in tokenizer["added_tokens"]}
    pieces = {number: piece for piece, number in tokenizer["model"]["vocab"].items()}
    pieces |= {number: token["content"] for number, token in added.items()}
    types = []
    for number in range(vocab_size):
        if number in added:
            special = added[number]["special"]
            types.append(gguf.TokenType.CONTROL if special else gguf.TokenType.USER_DEFINED)
        else:
            types.append(gguf.TokenType.NORMAL if number in pieces else gguf.TokenType.UNUSED)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    config = json.loads((checkpoint / "tokenizer_config.json").read_text(encoding="utf-8"))
    ids = {piece: number for number, piece in pieces.items()}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([pieces.get(number, f"[PAD{number}]") for number in range(vocab_size)])
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    if config.get("bos_token"):
        writer.add_bos_token_id(ids[config["bos_token"]])
    if config.get("eos_token"):
        writer.add_eos_token_id(ids[config["eos_token"]])
    writer.add_add_bos_token(bool(config.get("bos_token")))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.checkpoints.gguf_file", description="A GGUF file of a checkpoint."
    )
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("precision", choices=PRECISIONS)
    options = parser.parse_args(arguments)
    write_gguf(options.checkpoint, options.file, options.precision)


if __name__ == "__main__":
    main()
