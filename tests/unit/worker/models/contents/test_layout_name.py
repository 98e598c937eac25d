"""The name of the layout of the graphs in a folder."""

from tests.model_folders import CAUSAL_EXPORT, make_model
from worker.models.contents.present_files import layout_of
from worker.models.model_folder import ModelFolder


def test_the_layout_of_an_export_is_recognized_by_its_file_names(tmp_path):
    for layout, graphs in {
        "merged": ["encoder_model.onnx", "decoder_model_merged.onnx", "decoder_model.onnx"],
        "two decoders": ["encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx"],
        "no cache": ["encoder_model.onnx", "decoder_model.onnx"],
        None: ["encoder_model.onnx", "decoder_with_past_model.onnx"],
    }.items():
        make_model(tmp_path / str(layout) / "onnx", graphs)
        assert layout_of(ModelFolder("m", tmp_path / str(layout))) == layout


def test_a_folder_without_a_graph_has_no_layout(tmp_path):
    assert layout_of(ModelFolder("m", make_model(tmp_path / "m", CAUSAL_EXPORT))) is None
