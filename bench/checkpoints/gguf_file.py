"""A checkpoint of the Llama, Mistral, Qwen2 or Qwen3 family as a GGUF file, which llama.cpp reads.

    python -m bench.checkpoints.gguf_file CHECKPOINT FILE f32|f16|bf16|q8_0|q5_1|q4_0

Names of tensors and keys: the package `gguf` of llama.cpp. Without a `pre`, the file has no vocabulary: ids go in,
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

PRECISIONS = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "bf16": gguf.GGMLQuantizationType.BF16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q5_1": gguf.GGMLQuantizationType.Q5_1,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
}
_ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "mistral": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
}


def write_gguf(checkpoint: Path, file: Path, precision: str, *, pre: str | None = None, **values: Any) -> None:
    """Write `file` of a checkpoint in float32.

    `pre`: name of the pre-tokenizer (tokenizer.ggml.pre), to write the vocabulary of a byte-level tokenizer.json.
    `values`: numbers and strings to set in the metadata, by key with `__` for `.`.
    """
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    architecture = _ARCHITECTURES[config["model_type"]]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_size = config.get("head_dim") or config["hidden_size"] // heads
    writer = gguf.GGUFWriter(file, gguf.MODEL_ARCH_NAMES[architecture])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_size)
    writer.add_value_length(head_size)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(head_size)
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    _add_vocabulary(writer, checkpoint, pre, config["vocab_size"])
    for key, value in values.items():
        kind = gguf.GGUFValueType.UINT32 if type(value) is int else gguf.GGUFValueType.get_type(value)
        writer.kv_data[0].pop(key := key.replace("__", "."), None)
        writer.add_key_value(key, value, kind)
    _add_scaling(writer, config, head_size)
    permuted = {"q_proj": heads, "k_proj": kv_heads} if architecture is gguf.MODEL_ARCH.LLAMA else {}
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    with safetensors.safe_open(checkpoint / "model.safetensors", "numpy") as weights:
        for name in weights.keys():  # noqa: SIM118 - a file, not a mapping
            array = weights.get_tensor(name)
            part = name.split(".")[-2]
            if part in permuted:
                array = permute(array, permuted[part])
            kind = PRECISIONS[precision] if array.ndim == 2 else gguf.GGMLQuantizationType.F32
            new_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
            writer.add_tensor(new_name, gguf.quants.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


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
