"""`models add` of GGUF files that are kept as they are, where llama.cpp is not installed."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.checkpoints.gguf_file import write_gguf
from jobs.errors import ModelError, SpecError
from tests.causal_checkpoints import write_causal_checkpoint
from tests.messages import line_with
from worker.graphs.precision import Precision
from worker.model_tools.add import gguf_files
from worker.model_tools.add.add import Added, Request, add_model
from worker.model_tools.inspect import gguf as inspect_gguf
from worker.model_tools.inspect.inspect import inspect_model
from worker.models.contents.present_files import layout_of
from worker.models.contents.required_files import check_files
from worker.models.contents.summary import summarize
from worker.models.json_file import read_json
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder


@pytest.fixture(autouse=True)
def _no_llama_cpp(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (gguf_files, inspect_gguf):
        monkeypatch.setattr(module, "is_installed", lambda package: False)


@pytest.fixture
def quantized(tmp_path: Path) -> Path:
    """A file in Q4_0 with a setting of which no graphs are built."""
    return written(tmp_path, "q4_0", general__file_type=2, llama__attention__sliding_window=64)


def written(tmp_path: Path, precision: str, **values: Any) -> Path:
    file = tmp_path / "Tiny.gguf"
    write_gguf(write_causal_checkpoint(tmp_path / "tiny", "llama", ffn=64), file, precision, pre="gpt-2", **values)
    return file


def added(file: Path, tmp_path: Path, **options: Any) -> Added:
    return add_model(Request(source=str(file), **options), tmp_path / "models")


def test_a_file_of_which_no_graphs_are_built_is_copied_as_it_is(quantized: Path, tmp_path: Path) -> None:
    model = added(quantized, tmp_path)

    folder = Path(model.path)
    assert (model.name, model.layout, model.kind, model.precision) == ("Tiny", "gguf", "causal", "Q4_0")
    assert sorted(file.name for file in folder.iterdir()) == ["config.json", "kvjobs.json", "model.gguf"]
    assert (folder / "model.gguf").read_bytes() == quantized.read_bytes()
    assert read_json(folder / "config.json") == {
        "head_dim": 8, "hidden_size": 32, "max_position_embeddings": 128, "model_type": "llama",
        "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "vocab_size": 300,
    }  # fmt: skip
    assert set(Manifest.read(folder).source_files) == {"Tiny.gguf"}


def test_the_message_says_why_what_was_done_and_what_is_needed(quantized: Path, tmp_path: Path) -> None:
    note = added(quantized, tmp_path).note

    assert note is not None
    assert note.startswith("Tiny.gguf was copied as it is (")
    assert line_with(note, "No graphs", f"{quantized}", "not supported")
    assert line_with(note, "--providers llamacpp", "pip install 'llama-cpp-python")


def test_any_file_is_kept_if_that_is_asked_for(tmp_path: Path) -> None:
    model = added(written(tmp_path, "f32"), tmp_path, keep_gguf=True)

    assert (model.layout, model.precision) == ("gguf", "F32")
    assert "No graphs" not in str(model.note)


def test_a_file_is_not_kept_where_graphs_were_asked_for(quantized: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"llama\.attention\.sliding_window = 64"):
        added(quantized, tmp_path, precision=Precision.INT8)
    with pytest.raises(SpecError, match=r"--precision .*--keep-gguf"):
        added(quantized, tmp_path, precision=Precision.INT8, keep_gguf=True)
    with pytest.raises(SpecError, match=r"--keep-gguf .*GGUF files"):
        added(tmp_path / "tiny", tmp_path, keep_gguf=True)
    assert not any((tmp_path / "models").iterdir())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"split__count": 2}, "one of 2 parts of a model"),
        ({"general__type": "adapter"}, r"holds no whole model \(general\.type is 'adapter'\)"),
        ({"llama__attention__causal": False}, "a model of embeddings"),
        ({"llama__context_length": 0}, r"llama\.context_length = 0, which is not a size"),
    ],
)
def test_what_is_no_whole_causal_model_is_not_kept(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = written(tmp_path, "f32", **values)

    with pytest.raises(ModelError, match=message):
        added(file, tmp_path, keep_gguf=True)
    assert not any((tmp_path / "models").iterdir())


def test_a_file_that_ends_too_early_is_not_kept(quantized: Path, tmp_path: Path) -> None:
    quantized.write_bytes(quantized.read_bytes()[:-64])

    with pytest.raises(ModelError, match=r"Tiny\.gguf .*damaged.*beyond its end"):
        added(quantized, tmp_path, keep_gguf=True)


def test_the_copy_does_not_change_with_its_original(quantized: Path, tmp_path: Path) -> None:
    model = added(quantized, tmp_path)
    folder = ModelFolder(model.name, Path(model.path))
    stamps = folder.stamps()

    quantized.unlink()

    assert folder.stamps() == stamps


def test_the_files_of_a_kept_model_decide_its_revision(quantized: Path, tmp_path: Path) -> None:
    model = added(quantized, tmp_path)
    folder = ModelFolder(model.name, Path(model.path))
    revision, stamps = folder.revision(), folder.stamps()

    with (folder.path / "model.gguf").open("ab") as file:
        file.write(b"\0")

    assert folder.revision() != revision
    assert {name for name, stamp in folder.stamps().items() if stamps[name] != stamp} == {"model.gguf"}


def test_lists_show_a_kept_model_with_its_sizes(quantized: Path, tmp_path: Path) -> None:
    model = added(quantized, tmp_path)
    folder = ModelFolder(model.name, Path(model.path))

    found = summarize(folder)

    assert (layout_of(folder), found.layout, found.precision, found.problem) == ("gguf", "gguf", "Q4_0", None)
    assert found.tasks == ("score", "rerank", "generate")
    assert found.sizes is not None
    assert (found.sizes.num_layers, found.sizes.vocab_size) == (2, 300)
    (folder.path / "model.gguf").unlink()
    with pytest.raises(ModelError, match=r"model\.gguf .*missing.*--force"):
        check_files(folder)


def test_inspect_shows_types_cache_and_bos_rule_from_the_header(quantized: Path, tmp_path: Path) -> None:
    model = added(quantized, tmp_path)

    found = inspect_model(ModelFolder(model.name, Path(model.path)))

    assert not found.problems
    assert [one.name for one in found.stored_types] == ["Q4_0", "F32"]
    assert sum(one.num_bytes for one in found.stored_types) < quantized.stat().st_size
    # 2 layers of 2 heads of size 8, keys and values, 4 bytes each
    assert (found.num_layers, found.num_heads, found.head_size, found.cache_bytes) == (2, 2, 8, 256)
    assert (found.architecture, found.max_positions, found.vocab_size) == ("llama", 128, 300)
    assert (found.adds_bos, found.bos_id, found.eos_id) == (False, None, 0)
    (warning,) = found.warnings
    assert line_with(warning, "llama.cpp", "pip install 'llama-cpp-python")
    assert json.dumps(found.to_dict())


def test_inspect_names_the_fault_of_a_damaged_file(quantized: Path, tmp_path: Path) -> None:
    model = added(quantized, tmp_path)
    file = Path(model.path) / "model.gguf"
    file.write_bytes(file.read_bytes()[:-64])

    found = inspect_model(ModelFolder(model.name, Path(model.path)))

    assert any("damaged or incomplete" in problem for problem in found.problems)


def test_a_kept_model_is_copied_from_another_folder_of_models(quantized: Path, tmp_path: Path) -> None:
    model = added(quantized, tmp_path)

    copy = add_model(Request(source=model.path), tmp_path / "others")

    assert copy.layout == "gguf"
    assert (Path(copy.path) / "model.gguf").read_bytes() == quantized.read_bytes()
