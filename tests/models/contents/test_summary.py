"""What a list says of a model, from its files alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from worker.models.contents.summary import num_bytes, summarize
from worker.models.manifest import MANIFEST
from worker.models.model_folder import ModelFolder
from worker.models.registry import list_models


def bundled() -> dict[str, ModelFolder]:
    return {folder.name: folder for folder in list_models(Path("/nowhere"))}


def test_the_bundled_models_have_the_sizes_of_their_configurations() -> None:
    translation, causal = (summarize(bundled()[name]) for name in ("demo-en-zh", "demo-lm"))

    assert (translation.kind, translation.tasks, translation.layout) == ("translation", ("translate", "score"), "kv")
    assert (causal.kind, causal.tasks, causal.precision) == ("causal", ("score", "rerank", "generate"), "fp32")
    assert translation.sizes is not None
    assert causal.sizes is not None
    assert (translation.sizes.num_layers, translation.sizes.num_heads, translation.sizes.head_size) == (3, 4, 32)
    assert (causal.sizes.num_layers, causal.sizes.num_heads, causal.sizes.num_query_heads) == (4, 2, 4)
    for model in (translation, causal):
        assert model.problem is None
        assert model.is_bundled
        assert model.num_bytes > 1_000_000


def test_no_array_library_is_loaded_for_it(tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "config.json").write_text('{"architectures": ["FalconForCausalLM"]}')
    (tmp_path / "export" / "model.onnx").write_bytes(b"no graph")
    code = (
        "import sys, pathlib; from jobs.worker_port import worker_port; "
        f"models = worker_port().installed_models(pathlib.Path({str(tmp_path)!r})); "
        "print(*(model.layout for model in models)); "
        "assert not {'numpy', 'onnx', 'onnxruntime'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout.split()) == (0, ["kv", "kv", "export"]), done.stderr


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"config.json": '{"model_type": "marian"}'}, "encoder_model.onnx is missing"),
        ({MANIFEST: "{"}, "is not JSON"),
        ({MANIFEST: '{"format": 99}'}, "has format 99"),
        ({"config.json": '{"model_type": "marian", "d_model": "wide"}'}, "is missing"),
        ({}, "is missing"),
    ],
)
def test_what_cannot_be_read_is_a_problem_and_no_error(tmp_path: Path, files: dict[str, str], problem: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)

    assert problem in (summarize(ModelFolder("m", tmp_path)).problem or "")


def test_what_the_manifest_records_of_a_comparison_is_told(tmp_path: Path) -> None:
    manifest = json.loads((bundled()["demo-lm"].path / MANIFEST).read_text())
    told = {"layout": "optimum", "checkpoint": "/checkpoints/x", "departures": ["It has no window."]}
    (tmp_path / MANIFEST).write_text(json.dumps(manifest | told))
    (tmp_path / "config.json").write_text("{}")

    model = summarize(ModelFolder("m", tmp_path))

    assert (model.compared_with, model.departures) == ("/checkpoints/x", ("It has no window.",))


def test_a_link_that_leads_nowhere_has_no_size(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "b").symlink_to(tmp_path / "gone")

    assert num_bytes(ModelFolder("m", tmp_path)) == 5
