"""The order of providers where none is asked for."""

import json
from pathlib import Path

import pytest

from jobs.errors import SpecError
from jobs.providers import ProviderOrder
from jobs.settings import Settings
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.causal_checkpoints import write_causal_checkpoint
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.provider_admission import admit_order, default_order
from worker.models import manifest
from worker.models.model_folder import ModelFolder
from worker.models.registry import find_model


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    """A folder with the model tiny."""
    write_causal_checkpoint(tmp_path / "checkpoint", "qwen2")
    add_model(Request(source=str(tmp_path / "checkpoint"), name="tiny"), tmp_path / "models")
    return tmp_path / "models"


@pytest.fixture
def gguf(models_dir: Path, monkeypatch: pytest.MonkeyPatch) -> ModelFolder:
    """The same, as if it were a GGUF file that is kept as it is."""
    monkeypatch.setattr(manifest, "LAYOUTS", (*manifest.LAYOUTS, "gguf"))
    file = models_dir / "tiny" / "kvjobs.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"layout": "gguf"}))
    return find_model("tiny", models_dir)


def settings(models_dir: Path, providers: str) -> Settings:
    return Settings(home=models_dir.parent, models_dir=models_dir, providers=providers)


@pytest.mark.parametrize(
    ("providers", "order"),
    [
        ("onnx", "llamacpp"),
        ("score=openai,onnx", "openai,llamacpp"),
        ("onnx,openai,llamacpp:other", "llamacpp:other,openai"),
        ("openai", "openai"),
    ],
)
def test_llamacpp_takes_the_place_of_onnx_for_a_gguf_file(gguf: ModelFolder, providers: str, order: str) -> None:
    assert str(default_order(Task.SCORE, gguf, settings(gguf.path.parent, providers))) == order


def test_another_model_has_the_order_of_the_settings(models_dir: Path) -> None:
    folder = find_model("tiny", models_dir)

    assert str(default_order(Task.SCORE, folder, settings(models_dir, "onnx,openai"))) == "onnx,openai"
    assert str(default_order(Task.SCORE, None, settings(models_dir, "onnx,openai"))) == "onnx,openai"


def test_onnx_that_is_asked_for_a_gguf_file_names_the_provider_that_runs_it(gguf: ModelFolder) -> None:
    with pytest.raises(SpecError, match=r"tiny .*GGUF .*llamacpp"):
        admit_order(
            Task.SCORE,
            "tiny",
            ScoreOptions(),
            ProviderOrder.parse("onnx"),
            settings(gguf.path.parent, "onnx"),
            fallback=True,
        )
