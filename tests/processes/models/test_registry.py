"""Finding models by name loads no engine."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import CHECKOUT
from worker.models import registry

TOKENIZER = ["source.spm", "target.spm", "vocab.json"]


COMPLETE = ["config.json", "encoder_model.onnx", "decoder_model_merged.onnx", *TOKENIZER]


@pytest.fixture(autouse=True)
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(registry, "BUNDLED", {"demo-en-zh": tmp_path / "bundled", "demo-none": tmp_path / "none"})
    return make_model(tmp_path / "bundled")


def make_model(folder: Path, names: list[str] | None = None) -> Path:
    folder.mkdir(parents=True)
    for name in COMPLETE if names is None else names:
        (folder / name).write_text("{}" if name.endswith(".json") else name)
    return folder


def test_asking_for_names_loads_neither_onnxruntime_nor_numpy():
    heavy = {"numpy", "onnxruntime", "sentencepiece"}
    code = f"import sys, worker.models.registry; print(sorted({heavy} & set(sys.modules)))"

    seen = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True)

    assert seen.stdout == "[]\n"
