"""Model folders with the right file names and almost empty files."""

import dataclasses
from pathlib import Path

from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder

TOKENIZER = ["source.spm", "target.spm", "vocab.json"]

COMPLETE = ["config.json", "encoder_model.onnx", "decoder_model_merged.onnx", *TOKENIZER]


def make_model(folder: Path, names: list[str] | None = None) -> Path:
    folder.mkdir(parents=True)
    for name in COMPLETE if names is None else names:
        (folder / name).write_text("{}" if name.endswith(".json") else name)
    return folder


KV = ["config.json", "encoder.onnx", "decoder.onnx", "weights.data", *TOKENIZER]


def make_kv(folder: Path, names: list[str] = KV) -> Path:
    make_model(folder, names)
    manifest = Manifest(
        layout="kv",
        architecture="marian",
        precision="int8",
        head="full",
        head_ids=None,
        source="OWNER/NAME",
        revision=None,
        source_files={},
        files={},
        versions={},
    )
    (folder / "kvjobs.json").write_bytes(manifest.to_bytes())
    return folder


CAUSAL_KV = ["config.json", "body.onnx", "head.onnx", "weights.data", "tokenizer.json"]

CAUSAL_EXPORT = ["config.json", "model.onnx", "tokenizer.json"]


def make_causal(folder: Path, names: list[str] = CAUSAL_KV) -> ModelFolder:
    path = make_kv(folder, names)
    manifest = dataclasses.replace(Manifest.read(path), architecture="qwen2", head=None)
    (path / "kvjobs.json").write_bytes(manifest.to_bytes())
    return ModelFolder(folder.name, path)
