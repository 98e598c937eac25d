"""Tiny causal checkpoints with random weights, written without torch: the files that transformers 4.57 writes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tests.checkpoints import _write_json, write_weights
from worker.graphs.causal.graphs import write_causal
from worker.graphs.precision import Precision
from worker.models.json_file import read_json
from worker.models.manifest import Manifest

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
Weights = dict[str, NDArray[np.float32]]


def write_causal_checkpoint(
    folder: Path,
    family: str,
    *,
    width: int = 32,
    layers: int = 2,
    heads: int = 4,
    kv_heads: int = 2,
    head_size: int | None = None,  # None: width / heads
    ffn: int = 48,
    vocab_size: int = 300,
    max_positions: int = 128,
    tied: bool = True,
    dtype: str = "F32",  # F32 | F16 | BF16, the names of safetensors
    shards: int = 1,
    seed: int = 0,
    spread: float = 1.5,  # of the weights; 1 preserves norms; large enough that tokens matter
    **config: Any,  # further entries of config.json
) -> Path:
    """Write config.json, weights and a tokenizer into `folder`; the same arguments give the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    values = causal_config(
        family,
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        ffn=ffn,
        vocab_size=vocab_size,
        max_positions=max_positions,
        tied=tied,
        dtype=dtype,
        **config,
    )
    _write_json(folder / "config.json", values)
    write_weights(folder, random_causal_weights(values, seed=seed, spread=spread), dtype=dtype, shards=shards)
    write_causal_tokenizer(folder, vocab_size)
    return folder


def causal_config(
    family: str,
    *,
    width: int,
    layers: int,
    heads: int,
    kv_heads: int,
    head_size: int | None,
    ffn: int,
    vocab_size: int,
    max_positions: int,
    tied: bool,
    dtype: str = "F32",
    **config: Any,
) -> dict[str, Any]:
    """The config.json of a family, as a dictionary."""
    values: dict[str, Any] = {
        "architectures": [ARCHITECTURES[family]],
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "dtype": {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}[dtype],
        "eos_token_id": 0,
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": ffn,
        "max_position_embeddings": max_positions,
        "model_type": family,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": kv_heads,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": tied,
        "transformers_version": "4.57.6",
        "use_cache": True,
        "vocab_size": vocab_size,
    }
    if family in ("llama", "qwen3"):
        values |= {"attention_bias": False}
    if family == "llama":
        values |= {"mlp_bias": False}
    if family == "mistral":
        values |= {"sliding_window": None}
    if family != "qwen2" or head_size is not None:
        values |= {"head_dim": head_size or width // heads}
    return values | config


def random_causal_weights(config: Mapping[str, Any], *, seed: int, spread: float) -> Weights:
    """Random weights by their names in a checkpoint. A tied head appears once, as `save_pretrained` writes it."""
    rng = np.random.default_rng(seed)
    family, width, ffn = config["model_type"], config["hidden_size"], config["intermediate_size"]
    head_size = config.get("head_dim") or width // config["num_attention_heads"]
    queries, keys = config["num_attention_heads"] * head_size, config["num_key_value_heads"] * head_size
    biased = {"qwen2": ("q_proj", "k_proj", "v_proj")}.get(family, ())
    if config.get("attention_bias"):
        biased = ("q_proj", "k_proj", "v_proj", "o_proj")

    def draw(*shape: int, by: float) -> NDArray[np.float32]:
        return rng.normal(0.0, by, shape).astype(np.float32)

    weights = {"model.embed_tokens.weight": draw(config["vocab_size"], width, by=1.0)}
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = draw(config["vocab_size"], width, by=spread * width**-0.5)
    for layer in range(config["num_hidden_layers"]):
        here = f"model.layers.{layer}"
        attention = {"q_proj": (queries, width), "k_proj": (keys, width), "v_proj": (keys, width)}
        attention |= {"o_proj": (width, queries)}
        inner = {"gate_proj": (ffn, width), "up_proj": (ffn, width), "down_proj": (width, ffn)}
        for block, products in (("self_attn", attention), ("mlp", inner)):
            for name, (rows, columns) in products.items():
                weights[f"{here}.{block}.{name}.weight"] = draw(rows, columns, by=spread * columns**-0.5)
                if name in biased or (block == "mlp" and config.get("mlp_bias")):
                    weights[f"{here}.{block}.{name}.bias"] = draw(rows, by=0.2)
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{here}.{name}.weight"] = 1.0 + draw(width, by=0.1)
        if family == "qwen3":
            for name in ("q_norm", "k_norm"):
                weights[f"{here}.self_attn.{name}.weight"] = 1.0 + draw(head_size, by=0.2)
    # The final norm is small, so that a tied head, which has the scale of the embeddings, does not saturate.
    weights["model.norm.weight"] = np.float32(2.0 / width**0.5 if config["tie_word_embeddings"] else 1.0) * (
        1.0 + draw(width, by=0.1)
    )
    return weights


def write_causal_tokenizer(folder: Path, vocab_size: int) -> None:
    """Write a byte-level BPE: <|endoftext|>, the 256 bytes, and those of eight merges that fit into `vocab_size`."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<|endoftext|>": 0} | {letter: number + 1 for number, letter in enumerate(letters)}
    merges = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("a", "i"), ("ai", "n"), ("s", "n"), ("o", "w"), ("sn", "ow")]
    merges = merges[: max(0, vocab_size - len(vocabulary))]
    for one, other in merges:
        vocabulary[one + other] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(
        folder / "tokenizer_config.json",
        {"eos_token": "<|endoftext|>", "model_max_length": 128, "tokenizer_class": "PreTrainedTokenizerFast"},
    )


def write_kv_model(checkpoint: Path, folder: Path, precision: Precision = Precision.FP32) -> Path:
    """Write the native graphs of a checkpoint, with the other files that an engine opens."""
    folder.mkdir(parents=True, exist_ok=True)
    config = read_json(checkpoint / "config.json")
    weights = load_file(checkpoint / "model.safetensors")
    write_causal(folder, config, weights, precision=precision)
    manifest = Manifest(
        layout="kv",
        architecture=config["model_type"],
        precision=str(precision),
        head=None,
        head_ids=None,
        source=str(checkpoint),
        revision=None,
        source_files={},
        files={},
        versions={},
    )
    (folder / "kvjobs.json").write_bytes(manifest.to_bytes())
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_bytes((checkpoint / name).read_bytes())
    return folder
