"""The layout of a causal export is recognized by the inputs of its graph."""

from pathlib import Path

import onnx

from tests.model_folders import make_model
from worker.models.contents.present_files import layout_of
from worker.models.contents.required_files import check_files
from worker.models.model_folder import ModelFolder


def write_graph(file: Path, inputs: list[str]) -> None:
    """Write a graph that declares these inputs; it is never run."""
    tensors = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["B"]) for name in inputs]
    out = onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["B"])
    node = onnx.helper.make_node("Identity", [inputs[0]], ["logits"])
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", tensors, [out])), file)


def test_a_causal_export_is_complete_and_its_layout_is_read_from_its_graph(tmp_path):
    for layout, inputs in {
        "with past": ["input_ids", "past_key_values.0.key", "past_key_values.0.value"],
        "no cache": ["input_ids", "attention_mask"],
    }.items():
        folder = make_model(tmp_path / layout, ["config.json", "tokenizer.json"])
        (folder / "onnx").mkdir()
        write_graph(folder / "onnx" / "model.onnx", inputs)

        check_files(ModelFolder("m", folder))
        assert layout_of(ModelFolder("m", folder)) == layout
