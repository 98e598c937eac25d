"""`models inspect` of the folder of a causal language model, sound or broken."""

import json
from pathlib import Path

import pytest

from tests.causal_checkpoints import write_causal_checkpoint
from tests.messages import line_with
from tests.models.bigrams import write_export
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.inspect.description import ModelDescription
from worker.model_tools.inspect.inspect import inspect_model
from worker.models.model_folder import ModelFolder


@pytest.fixture
def folder(tmp_path: Path) -> ModelFolder:
    checkpoint = write_causal_checkpoint(tmp_path / "tiny", "qwen3", head_size=16, kv_heads=1, max_positions=64)
    added = add_model(Request(source=str(checkpoint), precision=Precision.FP16), tmp_path / "models")
    return ModelFolder(added.name, Path(added.path))


def cache_of(model: ModelDescription) -> tuple[int | None, int | None, int | None, int | None, str | None]:
    return model.num_layers, model.num_query_heads, model.num_heads, model.head_size, model.cache_dtype


def test_a_native_model_is_described_from_its_graphs_and_its_configuration(folder):
    model = inspect_model(folder)

    assert (model.kind, model.architecture, model.layout, model.precision) == ("causal", "qwen3", "kv", "fp16")
    assert cache_of(model) == (2, 4, 1, 16, "float16")
    assert (model.width, model.max_positions, model.vocab_size) == (32, 64, 300)
    assert (model.bos_id, model.eos_id) == (None, 0)
    assert (model.head, model.source_vocab_size, model.languages) == (None, None, ())
    assert [graph.file for graph in model.graphs if graph.is_used] == ["body.onnx", "head.onnx"]
    assert model.revision == folder.revision()
    assert model.problems == ()
    assert "without padding" in (model.conclusion or "")
    assert json.loads(json.dumps(model.to_dict()))["num_query_heads"] == 4


@pytest.mark.parametrize(
    ("has_past", "layout", "cache"),
    [(True, "with past", (1, 2, 2, 4, "float32")), (False, "no cache", (None, 2, None, None, None))],
)
def test_an_export_is_described_from_its_graph(tmp_path, has_past, layout, cache):
    model = inspect_model(ModelFolder("exported", write_export(tmp_path / "exported", has_past=has_past)))

    assert (model.kind, model.layout, model.precision, model.source) == ("causal", layout, None, None)
    assert cache_of(model) == cache
    assert (model.width, model.max_positions, model.vocab_size, model.eos_id) == (8, 64, 300, 0)
    assert model.problems == ()
    assert "past_key_values" in (model.conclusion or "")
    assert ("kvjobs models add" in (model.conclusion or "")) is not has_past


def test_settings_that_an_export_lacks_are_reported(tmp_path):
    limited = write_export(tmp_path / "limited", model_type="mistral", sliding_window=16)
    clipped = write_export(tmp_path / "clipped", clip_qkv=8.0)

    model = inspect_model(ModelFolder("limited", limited))
    assert (model.problems, model.max_positions) == ((), 16)
    assert model.warnings[0].startswith("reads at most 16 tokens at once: config.json asks for sliding_window = 16")

    model = inspect_model(ModelFolder("clipped", clipped))
    assert "clip_qkv = 8" in model.problems[0]
    assert model.conclusion is None


@pytest.mark.parametrize("name", ["body.onnx", "weights.data", "tokenizer.json", "config.json"])
def test_a_missing_file_is_reported_once(folder, name):
    (folder.path / name).unlink()

    model = inspect_model(folder)

    (problem,) = model.problems
    assert line_with(problem, f"/{name} is missing", "`kvjobs models add")
    assert (model.kind, model.conclusion) == ("causal", None)


def test_a_changed_file_is_reported(folder):
    file = folder.path / "weights.data"
    file.write_bytes(b"!" + file.read_bytes()[1:])

    (problem,) = inspect_model(folder).problems
    assert line_with(problem, "weights.data", "checksum")


def test_a_tokenizer_of_another_model_is_reported(tmp_path):
    export = write_export(tmp_path / "exported")
    file = export / "tokenizer.json"
    file.write_text(file.read_text().replace('"snow": 264', '"snow": 9000'))

    model = inspect_model(ModelFolder("exported", export))

    assert "9,000" in model.problems[0]
    assert model.vocab_size == 300


def test_a_checkpoint_is_reported_only_with_how_to_add_it(tmp_path):
    checkpoint = write_causal_checkpoint(tmp_path / "tiny", "llama")

    model = inspect_model(ModelFolder("tiny", checkpoint))

    (problem,) = model.problems
    assert f"`kvjobs models add {checkpoint}`" in problem
    assert (model.kind, model.layout) == ("causal", None)


def test_a_file_that_is_not_a_graph_is_reported(tmp_path):
    export = write_export(tmp_path / "exported")
    (export / "model.onnx").write_bytes(b"nonsense")

    model = inspect_model(ModelFolder("exported", export))

    assert line_with(model.problems[0], "model.onnx", "ONNX graph")
    assert model.layout is None
