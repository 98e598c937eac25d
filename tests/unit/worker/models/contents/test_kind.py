"""Which kind of model a folder holds."""

import pytest

from tests.model_folders import make_causal, make_kv, make_model
from worker.models.contents.present_files import kind_of
from worker.models.model_folder import ModelFolder
from worker.models.model_kind import ModelKind


def test_the_kind_is_that_of_the_manifest(tmp_path):
    assert kind_of(make_causal(tmp_path / "lm")) is ModelKind.CAUSAL
    assert kind_of(ModelFolder("m", make_kv(tmp_path / "m"))) is ModelKind.TRANSLATION


@pytest.mark.parametrize("place", [".", "onnx"])
def test_without_a_manifest_the_kind_is_that_of_the_graphs(tmp_path, place):
    for kind, graphs in {
        ModelKind.CAUSAL: ["model.onnx"],
        ModelKind.TRANSLATION: ["encoder_model.onnx", "model.onnx"],
    }.items():
        folder = make_model(tmp_path / kind, ["config.json"])
        (folder / place).mkdir(exist_ok=True)
        for name in graphs:
            (folder / place / name).touch()
        assert kind_of(ModelFolder("m", folder)) is kind


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ('{"architectures": ["Qwen2ForCausalLM"]}', ModelKind.CAUSAL),
        ('{"model_type": "llama"}', ModelKind.CAUSAL),
        ('{"model_type": "marian"}', ModelKind.TRANSLATION),
        ("[]", ModelKind.TRANSLATION),
        ("not JSON", ModelKind.TRANSLATION),
    ],
)
def test_without_a_graph_the_kind_is_that_of_the_configuration(tmp_path, config, kind):
    folder = make_model(tmp_path / "m", [])
    (folder / "config.json").write_text(config)

    assert kind_of(ModelFolder("m", folder)) is kind
