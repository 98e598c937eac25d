"""When an export of a causal model is complete."""

from pathlib import Path

import onnx
import pytest

from worker.models import registry
from worker.models.contents.layout_name import layout_of
from worker.models.contents.required_files import check_files
from worker.models.model_folder import ModelFolder

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


def write_graph(file: Path, inputs: list[str]) -> None:
    """A head that says these inputs; nothing runs it."""
    tensors = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["B"]) for name in inputs]
    out = onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["B"])
    node = onnx.helper.make_node("Identity", [inputs[0]], ["logits"])
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", tensors, [out])), file)


def test_a_causal_export_is_complete_and_its_layout_shows_in_its_graph(tmp_path):
    for layout, inputs in {
        "with past": ["input_ids", "past_key_values.0.key", "past_key_values.0.value"],
        "no cache": ["input_ids", "attention_mask"],
    }.items():
        folder = make_model(tmp_path / layout, ["config.json", "tokenizer.json"])
        (folder / "onnx").mkdir()
        write_graph(folder / "onnx" / "model.onnx", inputs)

        check_files(ModelFolder("m", folder))
        assert layout_of(ModelFolder("m", folder)) == layout
