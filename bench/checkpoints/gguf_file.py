"""A checkpoint of the Qwen2 family as a GGUF file, which llama.cpp reads.

    python -m bench.checkpoints.gguf_file CHECKPOINT FILE f32|q8_0

Names of tensors and keys: the package `gguf` of llama.cpp. The file has no vocabulary: ids go in, logits come out.
Products in q8_0, as llama.cpp's own quantizer does it; norms and biases stay in float32.
"""

import argparse
import json
from pathlib import Path

import gguf
import safetensors

_TYPES = {"f32": gguf.GGMLQuantizationType.F32, "q8_0": gguf.GGMLQuantizationType.Q8_0}


def write_gguf(checkpoint: Path, file: Path, precision: str) -> None:
    """Write `file` of a checkpoint in float32."""
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    writer = gguf.GGUFWriter(file, gguf.MODEL_ARCH_NAMES[gguf.MODEL_ARCH.QWEN2])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config["num_hidden_layers"])
    with safetensors.safe_open(checkpoint / "model.safetensors", "numpy") as weights:
        for name in weights.keys():  # noqa: SIM118 - a file, not a mapping
            array = weights.get_tensor(name)
            kind = _TYPES[precision] if array.ndim == 2 else gguf.GGMLQuantizationType.F32
            new_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
            writer.add_tensor(new_name, gguf.quants.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.checkpoints.gguf_file", description="A GGUF file of a checkpoint."
    )
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("precision", choices=_TYPES)
    options = parser.parse_args(arguments)
    write_gguf(options.checkpoint, options.file, options.precision)


if __name__ == "__main__":
    main()
