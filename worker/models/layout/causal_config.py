"""
The sizes in a causal model's configuration: config.json, or genai_config.json where an export has only that.

Knows: their names in transformers and onnxruntime-genai. Does not know: graphs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from jobs.errors import ModelError
from worker.models.file_names import CONFIG, GENAI_CONFIG
from worker.models.json_file import read_json

# Size -> its names: the name in most models of transformers, the names of GPT-2 and others, the name of genai.
_NAMES = {
    "vocab_size": ("vocab_size",),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "num_heads"),
    "num_key_value_heads": ("num_key_value_heads", "num_kv_heads"),
    "hidden_size": ("hidden_size", "n_embd", "d_model"),
    "head_dim": ("head_dim", "head_size"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "context_length"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalConfig:
    """A causal model's configuration. None: not given."""

    file: str
    vocab_size: int | None = None
    num_hidden_layers: int | None = None
    num_attention_heads: int | None = None
    num_key_value_heads: int | None = None
    hidden_size: int | None = None
    head_dim: int | None = None
    max_position_embeddings: int | None = None
    content: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)  # the whole file

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The configuration in a model folder; raise ModelError where it is missing or invalid."""
        file = folder / CONFIG
        if not file.is_file() and (folder / GENAI_CONFIG).is_file():
            file = folder / GENAI_CONFIG
            model = _object(read_json(file), "model", file)
            return cls.of({**_object(model, "decoder", file), **model}, file)
        return cls.of(read_json(file), file)

    @classmethod
    def of(cls, content: Mapping[str, Any], file: Path | str) -> Self:
        """The configuration, from the content of `file`."""
        sizes = {
            key: next((content[name] for name in names if content.get(name) is not None), None)
            for key, names in _NAMES.items()
        }
        for key, size in sizes.items():
            if size is not None and (type(size) is not int or size < 1):
                raise ModelError(f"{file} says {key} = {size!r}, which is not a size: export the model again")
        return cls(file=str(file), content=content, **sizes)


def genai_filename(folder: Path) -> str | None:
    """The name of the graph in genai_config.json; None where there is no such file, or it names none."""
    file = folder / GENAI_CONFIG
    if not file.is_file():
        return None
    name = _object(_object(read_json(file), "model", file), "decoder", file).get("filename")
    return name if isinstance(name, str) and Path(name).name == name else None


def _object(content: Mapping[str, Any], key: str, file: Path) -> Mapping[str, Any]:
    value = content.get(key)
    if not isinstance(value, Mapping):
        raise ModelError(f"{file} lacks the object {key}: export the model again")
    return value
