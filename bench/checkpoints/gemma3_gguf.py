"""The GGUF file of a Gemma-3, the text part, as a checkpoint: what llama.cpp's conversion/gemma.py does, backwards.

kvjobs builds no graphs of such a file, only of the checkpoint.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from worker.models.checkpoint.gguf_checkpoint import LAYER_NAMES
from worker.models.checkpoint.gguf_file import GgufFile
from worker.models.checkpoint.tensor_files import Weight
from worker.text.gguf_tokenizer import tokenizer_files

_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
_LAYER_NAMES = LAYER_NAMES | {
    "ffn_norm": "pre_feedforward_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_FULL_EVERY = 6  # layers; the format leaves it out
_LOCAL_BASE = 10_000.0  # as it does this
_USER_DEFINED, _UNUSED = 4, 5  # llama_token_type


def read_gemma3(file: GgufFile) -> tuple[dict[str, Any], Mapping[str, Weight], dict[str, dict[str, Any]]]:
    """config.json; the weights by their names in transformers; the files of the tokenizer by their names."""
    return _config(file), _Weights(file), _tokenizer(file.metadata)


class _Weights(Mapping[str, Weight]):
    """Each access reads a tensor."""

    def __init__(self, file: GgufFile) -> None:
        self._tensors = {_name_of(name): tensor for name, tensor in file.tensors.items()}

    def __getitem__(self, name: str) -> Weight:
        weight = self._tensors[name].read()
        return weight - 1 if weight.ndim == 1 else weight  # norms multiply by 1 + weight

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def _name_of(name: str) -> str:
    *layer, part, _ = name.split(".")
    return f"model.layers.{layer[1]}.{_LAYER_NAMES[part]}.weight" if layer else f"{_NAMES[part]}.weight"


def _config(file: GgufFile) -> dict[str, Any]:
    def of(key: str) -> Any:
        return file.metadata[f"gemma3.{key}"]

    layers = of("block_count")
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "attention_bias": False,
        "bos_token_id": file.metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": file.metadata["tokenizer.ggml.eos_token_id"],
        "head_dim": of("attention.key_length"),
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": of("embedding_length"),
        "intermediate_size": of("feed_forward_length"),
        "layer_types": [
            "full_attention" if (layer + 1) % _FULL_EVERY == 0 else "sliding_attention" for layer in range(layers)
        ],
        "max_position_embeddings": of("context_length"),
        "model_type": "gemma3_text",
        "num_attention_heads": of("attention.head_count"),
        "num_hidden_layers": layers,
        "num_key_value_heads": of("attention.head_count_kv"),
        "query_pre_attn_scalar": of("attention.key_length"),
        "rms_norm_eps": 1e-6,
        "rope_local_base_freq": _LOCAL_BASE,
        "rope_scaling": None,
        "rope_theta": of("rope.freq_base"),
        "sliding_window": of("attention.sliding_window"),
        "tie_word_embeddings": True,
        "vocab_size": file.tensors["token_embd.weight"].shape[0],
    }


def _tokenizer(metadata: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Runs of spaces or line breaks, and tags, are tokens of their own, which a text may have: unlike `<bos>`."""
    types = metadata["tokenizer.ggml.token_type"]
    unused = [_UNUSED if kind == _USER_DEFINED else kind for kind in types]
    files = tokenizer_files({**metadata, "tokenizer.ggml.token_type": unused}, "Gemma-3")
    for token in files["tokenizer.json"]["added_tokens"]:
        token["special"] = types[token["id"]] != _USER_DEFINED
    return files
