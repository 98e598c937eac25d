"""`models add` for causal language models: built from checkpoints of each family, or copied from exports."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from jobs.errors import ModelError, SpecError
from tests.causal_checkpoints import write_causal_checkpoint
from tests.causal_exports import BASE, Export, write_checkpoint, write_letters
from tests.models.bigrams import write_export
from worker.engine.causal.open import open_causal_model
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Added, Request, add_model
from worker.model_tools.add.target_ids import HeadChoice
from worker.model_tools.verify import causal, references
from worker.model_tools.verify.causal import VerifiedCausal
from worker.model_tools.verify.numpy_causal import NumpyCausal
from worker.model_tools.verify.verify import verify
from worker.models.contents.present_files import kind_of, layout_of
from worker.models.contents.required_files import check_files
from worker.models.manifest import Manifest, sha256_of
from worker.models.model_folder import ModelFolder
from worker.models.model_kind import ModelKind
from worker.models.registry import find_model

Add = Callable[..., Added]
GRAPHS = {"body.onnx", "head.onnx", "weights.data"}


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def add(models_dir: Path) -> Add:
    def call(source: Path | str, **options: Any) -> Added:
        return add_model(Request(source=str(source), **options), models_dir)

    return call


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_causal_checkpoint(tmp_path / "tiny", "llama")


def names_in(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}


# --- checkpoints


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
@pytest.mark.parametrize("precision", Precision)
def test_a_checkpoint_of_each_family_becomes_a_model(add, models_dir, tmp_path, family, precision):
    added = add(write_causal_checkpoint(tmp_path / "tiny", family), precision=precision)

    folder = find_model(added.name, models_dir)
    check_files(folder)
    assert added.name == ("tiny" if precision is Precision.FP32 else f"tiny-{precision}")
    assert (added.kind, added.layout, added.precision) == ("causal", "kv", precision)
    assert (added.head, added.head_size) == (None, None)
    assert (kind_of(folder), layout_of(folder)) == (ModelKind.CAUSAL, "kv")
    assert open_causal_model(folder.path).max_positions == 128
    manifest = Manifest.read(folder.path)
    assert (manifest.architecture, manifest.precision, manifest.head) == (family, precision, None)
    assert list(manifest.differences(folder.path)) == []


def test_the_manifest_records_the_source_and_the_written_files(add, checkpoint, models_dir):
    add(checkpoint)

    manifest = Manifest.read(models_dir / "tiny")
    assert names_in(checkpoint) == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert manifest.source_files == {name: sha256_of(checkpoint / name) for name in names_in(checkpoint)}
    assert manifest.files.keys() == {*GRAPHS, "config.json", "tokenizer.json", "tokenizer_config.json"}
    assert names_in(models_dir / "tiny") == {*manifest.files, "kvjobs.json"}


def test_the_same_input_gives_the_same_bytes(add, checkpoint, models_dir):
    one, other = (add(checkpoint, name=name) for name in ("one", "other"))

    assert find_model("one", models_dir).revision() == find_model("other", models_dir).revision()
    assert one.num_bytes == other.num_bytes


def test_a_model_that_kvjobs_made_is_copied_unchanged(add, checkpoint, models_dir, tmp_path):
    add(checkpoint, precision=Precision.INT8)
    moved = (models_dir / "tiny-int8").rename(tmp_path / "moved")

    added = add(moved)

    assert (added.name, added.kind, added.precision, added.source) == ("moved", "causal", "int8", str(checkpoint))


@pytest.mark.parametrize("head", HeadChoice)
def test_the_head_option_is_refused_for_a_causal_model(add, checkpoint, models_dir, head):
    with pytest.raises(SpecError, match=r"--head .*translation.*/tiny .*causal"):
        add(checkpoint, head=head)
    assert os.listdir(models_dir) == []


# --- exports


@pytest.mark.parametrize("place", [".", "onnx"])
@pytest.mark.parametrize(("has_past", "layout"), [(True, "with past"), (False, "no cache")])
def test_an_export_is_copied_with_its_weights(add, models_dir, tmp_path, place, has_past, layout):
    export = write_export(tmp_path / "exported", has_past=has_past, has_external_weights=True, place=place)
    for name in ("README.md", "other_model.onnx", "vocab.json"):
        (export / name).write_text(name)

    added = add(export)

    folder = find_model("exported", models_dir)
    check_files(folder)
    graphs = {os.path.normpath(os.path.join(place, name)) for name in ("model.onnx", "model.onnx_data")}
    assert (added.kind, added.layout, added.precision) == ("causal", "optimum", None)
    assert names_in(folder.path) == {
        *graphs, "config.json", "kvjobs.json", "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    assert (kind_of(folder), layout_of(folder)) == (ModelKind.CAUSAL, layout)
    assert Manifest.read(folder.path).architecture == "gpt2"
    assert open_causal_model(folder.path).max_positions == 64


def test_the_graph_of_a_genai_export_is_copied_under_its_own_name(add, models_dir, tmp_path):
    export = write_export(tmp_path / "exported")
    (export / "model.onnx").rename(export / "decoder.onnx")
    (export / "config.json").unlink()
    decoder = {"filename": "decoder.onnx", "head_size": 4, "num_attention_heads": 2, "num_hidden_layers": 1}
    written = {"model": {"type": "phi3", "context_length": 64, "vocab_size": 300, "decoder": decoder}}
    (export / "genai_config.json").write_text(json.dumps(written))

    add(export)

    assert "decoder.onnx" in names_in(models_dir / "exported")
    assert Manifest.read(models_dir / "exported").architecture == "phi3"
    check_files(ModelFolder("exported", models_dir / "exported"))


def test_an_export_without_an_architecture_is_recognized_as_causal_by_its_graph(add, models_dir, tmp_path):
    export = write_export(tmp_path / "exported")
    (export / "config.json").write_text('{"vocab_size": 300, "model_type": "marian"}')

    add(export)

    assert kind_of(find_model("exported", models_dir)) is ModelKind.CAUSAL


@pytest.mark.parametrize("options", [{"precision": Precision.INT8}, {"head": HeadChoice.FULL}])
def test_options_for_building_graphs_are_refused_for_an_export(add, tmp_path, options):
    with pytest.raises(SpecError, match="building graphs"):
        add(write_export(tmp_path / "exported"), **options)


def test_graphs_are_built_from_a_checkpoint_even_if_an_export_is_beside_it(add, checkpoint):
    onnx.save(onnx.load(write_export(checkpoint.parent / "exported") / "model.onnx"), checkpoint / "model.onnx")

    assert add(checkpoint).layout == "kv"


# --- exports that differ from their configuration


def test_an_export_that_contradicts_its_configuration_is_added_only_if_accepted_by_option(add, models_dir, tmp_path):
    export = write_export(tmp_path / "exported", clip_qkv=8.0)

    with pytest.raises(ModelError, match=r"/exported/model\.onnx .*/exported/config\.json"):
        add(export)
    assert os.listdir(models_dir) == []

    added = add(export, accept_departures=True)
    (sentence,) = added.warnings
    assert "clip_qkv = 8" in sentence
    manifest = Manifest.read(Path(added.path))
    assert (manifest.accepts_departures, manifest.departures) == (True, added.warnings)
    assert open_causal_model(Path(added.path)).max_positions == 64


def test_the_limits_of_an_export_are_reported_when_it_is_added(add, tmp_path):
    added = add(write_export(tmp_path / "exported", model_type="mistral", sliding_window=16))

    assert added.warnings == (
        "reads at most 16 tokens at once: config.json asks for sliding_window = 16, which is not seen in the graph",
    )
    assert open_causal_model(Path(added.path)).max_positions == 16
    assert add(write_export(tmp_path / "another")).warnings == ()


@pytest.fixture
def in_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causal, "open_causal_reference", NumpyCausal.open)


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """An export whose tokenizer makes one token per letter."""
    folder = Export().write(tmp_path / "exported", rope_theta=BASE, architectures=["InternLM3ForCausalLM"])
    write_letters(folder)
    return folder


def test_an_export_is_compared_with_the_checkpoint_given_by_option(add, tmp_path, letters, in_numpy):
    checkpoint = write_checkpoint(tmp_path / "checkpoint", Export())

    added = add(letters, checkpoint=str(checkpoint))

    assert added.warnings == ()
    model = find_model("exported", Path(added.path).parent)
    assert Manifest.read(model.path).checkpoint == str(checkpoint)
    found = {check.name: check for check in verify(model, [[3, 4, 5, 6, 7, 8]], VerifiedCausal())}
    assert (found["checkpoint"].against, found["checkpoint"].verdict) == ("checkpoint, in numpy", "same")


def test_an_export_that_differs_from_its_checkpoint_is_added_only_if_accepted_by_option(
    add, tmp_path, models_dir, letters, in_numpy
):
    checkpoint = write_checkpoint(tmp_path / "checkpoint", Export(), changed=0.2)

    with pytest.raises(ModelError, match=r"/exported .*log-probabilities .*/checkpoint .*nats"):
        add(letters, checkpoint=str(checkpoint))
    assert os.listdir(models_dir) == []

    (sentence,) = add(letters, checkpoint=str(checkpoint), accept_departures=True).warnings
    assert sentence.startswith("differs from its checkpoint by ")


def test_an_export_without_a_configuration_is_checked_against_that_of_its_checkpoint(add, tmp_path, letters, in_numpy):
    """onnxruntime-genai writes only the sizes."""
    (letters / "config.json").unlink()
    (letters / "genai_config.json").write_text(json.dumps({"model": {"context_length": 96, "decoder": {}}}))
    checkpoint = write_checkpoint(tmp_path / "checkpoint", Export(), clip_qkv=8.0)

    assert add(letters, name="alone").warnings == ()
    with pytest.raises(ModelError, match=r"checkpoint/config\.json .*clip_qkv = 8"):
        add(letters, checkpoint=str(checkpoint))


def test_an_export_beside_an_unsupported_checkpoint_is_added_without_a_comparison(add, tmp_path, letters, monkeypatch):
    checkpoint = write_checkpoint(tmp_path / "checkpoint", Export())
    (letters / "model.safetensors").write_bytes((checkpoint / "model.safetensors").read_bytes())
    monkeypatch.setattr(references, "find_spec", lambda name: None)  # leaves the numpy reference

    added = add(letters)

    assert added.layout == "optimum"
    assert added.warnings[0].startswith("was not compared with its checkpoint: ")


def test_the_checkpoint_option_needs_an_existing_checkpoint_and_an_export(add, tmp_path, letters, checkpoint):
    with pytest.raises(SpecError, match=r"--checkpoint .*/nowhere .*folder"):
        add(letters, checkpoint=str(tmp_path / "nowhere"))
    with pytest.raises(SpecError, match=r"--checkpoint .*exports"):
        add(checkpoint, checkpoint=str(checkpoint))


# --- refusals


def no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def other_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "tokenizer.model")


def wrong_tokenizer(folder: Path) -> None:
    file = folder / "tokenizer.json"
    file.write_text(file.read_text().replace('"snow": 264', '"snow": 9000'))


def spoil_config(**changes: Any) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text()) | changes
        (folder / "config.json").write_text(json.dumps(config))

    return spoil


def spoil_names(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes().replace(b"layers.1.mlp.up_proj.weight", b"layers.1.mlp.up.masked_bias"))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (no_tokenizer, r"tiny/tokenizer\.json is missing"),
        (other_tokenizer, r"tiny/tokenizer\.json .*tokenizer\.model .*AutoTokenizer.*save_pretrained"),
        (wrong_tokenizer, r"tiny/tokenizer\.json .*9,000.*below 300"),
        (
            spoil_config(architectures=["MptForCausalLM"]),
            r"architecture MptForCausalLM; .* builds graphs of Marian",
        ),
        (spoil_config(architectures=["LlamaForSequenceClassification"]), "architecture LlamaForSequenceClassification"),
        (spoil_config(hidden_act="mish"), r"/tiny: .*hidden_act = mish"),
        (spoil_config(rope_scaling={"rope_type": "longrope"}), "rope_type = longrope; supported are"),
        (spoil_names, r"lacks the tensor model\.layers\.1\.mlp\.up_proj\.weight"),
        (lambda folder: (folder / "model.safetensors").unlink(), "has no weights"),
    ],
)
def test_an_unusable_checkpoint_is_refused_with_one_sentence_and_leaves_nothing_behind(
    add, checkpoint, models_dir, spoil, message
):
    spoil(checkpoint)

    with pytest.raises(ModelError, match=message):
        add(checkpoint)
    assert os.listdir(models_dir) == []


def test_an_export_that_cannot_run_is_not_added(add, models_dir, tmp_path):
    export = write_export(tmp_path / "exported")
    (export / "model.onnx").write_bytes(b"nonsense")

    with pytest.raises(ModelError, match=r"/exported/model\.onnx .*ONNX graph"):
        add(export)
    assert os.listdir(models_dir) == []
