"""Random causal models of a given size, seeded, as Hugging Face checkpoints: their output is noise, but they take as
long as a trained model of the same size.

    python -m bench.checkpoints.causal_models qwen-shaped --out DIR

Needs neither torch nor transformers.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from bench.checkpoints.causal_shapes import CAUSAL_SHAPES, CausalShape


def write_checkpoint(shape: CausalShape, folder: Path, seed: int = 0) -> None:
    """Write config.json, model.safetensors (fp32), and a tokenizer whose words are w0, w1, ... by their ids."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(shape.config(), indent=2) + "\n", encoding="utf-8")
    save_file(dict(_weights(shape, np.random.default_rng(seed))), folder / "model.safetensors", {"format": "pt"})
    write_word_tokenizer(folder, shape.vocab_size)


def write_word_tokenizer(folder: Path, vocab_size: int) -> None:
    """Write a tokenizer whose words are w0, w1, ... by their ids."""
    words = {f"w{number}": number for number in range(vocab_size)}
    tokenizer = Tokenizer(WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}\n', encoding="utf-8")


def _weights(shape: CausalShape, rng: np.random.Generator) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Every tensor by its name in transformers."""

    def drawn(*dims: int) -> NDArray[np.float32]:
        return rng.standard_normal(dims, dtype=np.float32) * np.float32(shape.spread)

    width, keys = shape.width, shape.kv_heads * shape.head_size
    ones = np.ones(width, np.float32)
    yield "model.embed_tokens.weight", drawn(shape.vocab_size, width)
    yield "model.norm.weight", ones
    for number in range(shape.layers):
        layer = f"model.layers.{number}"
        yield f"{layer}.input_layernorm.weight", ones
        yield f"{layer}.post_attention_layernorm.weight", ones
        for name, rows in (("q", width), ("k", keys), ("v", keys)):
            yield f"{layer}.self_attn.{name}_proj.weight", drawn(rows, width)
            yield f"{layer}.self_attn.{name}_proj.bias", drawn(rows)
        yield f"{layer}.self_attn.o_proj.weight", drawn(width, width)
        yield f"{layer}.mlp.gate_proj.weight", drawn(shape.ffn, width)
        yield f"{layer}.mlp.up_proj.weight", drawn(shape.ffn, width)
        yield f"{layer}.mlp.down_proj.weight", drawn(width, shape.ffn)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.checkpoints.causal_models", description="Random causal models."
    )
    parser.add_argument("shape", choices=CAUSAL_SHAPES)
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    write_checkpoint(CAUSAL_SHAPES[options.shape], options.out, options.seed)


if __name__ == "__main__":
    main()
