"""What `models add` makes of each kind of source, and that a failure leaves nothing behind."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from jobs.errors import ModelError, NotFoundError, SpecError
from tests.checkpoints import write_marian_checkpoint, write_pickle, write_tokenizer
from tests.places import GOLDEN
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Added, Request, add_model
from worker.model_tools.add.target_ids import HeadChoice
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.contents.required_files import check_files
from worker.models.manifest import Manifest, sha256_of
from worker.models.model_folder import ModelFolder
from worker.models.registry import find_model
from worker.text.translation.marian_tokenizer import MarianTokenizer

TINY = GOLDEN / "tiny-swish-tied"
Add = Callable[..., Added]


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
    return write_marian_checkpoint(tmp_path / "opus-tiny")


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A folder of an Optimum export with the graphs of every layout."""
    folder = shutil.copytree(TINY, tmp_path / "exported")
    (folder / "decoder_model_without_past.onnx").unlink()
    config = json.loads((folder / "config.json").read_text())
    write_tokenizer(folder, config["vocab_size"], eos_id=config["eos_token_id"], pad_id=config["pad_token_id"])
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_external_weights_that_link_out_of_the_export_are_not_copied(add, export, tmp_path, models_dir):
    (tmp_path / "secret").write_text("secret")
    (export / "encoder_model.onnx_data").symlink_to(tmp_path / "secret")

    with pytest.raises(ModelError, match=r"exported/encoder_model\.onnx_data .*link .*/secret"):
        add(export)
    assert not any(models_dir.iterdir())


# --- checkpoints


def test_a_checkpoint_becomes_a_model_with_the_name_of_its_folder(add, checkpoint, models_dir):
    added = add(checkpoint)

    folder = find_model("opus-tiny", models_dir)
    check_files(folder)
    assert (added.name, added.path, added.layout) == ("opus-tiny", str(models_dir / "opus-tiny"), "kv")
    assert (added.precision, added.head, added.head_size) == ("fp32", "full", 72)
    assert added.num_bytes == sum(
        len(content) for name, content in contents(folder.path).items() if "kvjobs" not in name
    )
    assert {*contents(checkpoint)} - {*contents(folder.path)} == {"model.safetensors"}
    assert os.listdir(models_dir) == ["opus-tiny"]


@pytest.mark.parametrize("zipped", [True, False])
def test_the_file_format_of_the_weights_changes_no_byte_of_the_graphs(add, checkpoint, models_dir, zipped):
    add(checkpoint, name="safetensors")
    write_pickle(checkpoint / "pytorch_model.bin", dict(Checkpoint.open(checkpoint).weights), zipped=zipped)
    (checkpoint / "model.safetensors").unlink()

    add(checkpoint, name="pickle")

    one, other = (contents(models_dir / name) for name in ("safetensors", "pickle"))
    assert one.pop("kvjobs.json") != other.pop("kvjobs.json")
    assert one == other


def test_a_checkpoint_in_the_oldest_published_form_gives_the_same_graphs(add, checkpoint, models_dir):
    """A config.json with all constant settings, a pickle with every name of a tied tensor, no decoder_vocab_size."""
    add(checkpoint, name="today")
    config = json.loads((checkpoint / "config.json").read_text())
    for name in ("decoder_vocab_size", "share_encoder_decoder_embeddings", "dtype", "transformers_version"):
        del config[name]
    config |= {
        "_num_labels": 3, "add_bias_logits": False, "add_final_layer_norm": False, "classif_dropout": 0.0,
        "normalize_before": False, "normalize_embedding": False, "static_position_embeddings": True,
    }  # fmt: skip
    (checkpoint / "config.json").write_text(json.dumps(config))
    weights = dict(Checkpoint.open(checkpoint).weights)
    (checkpoint / "model.safetensors").unlink()
    angles = np.arange(64)[:, None] / np.power(10000, 2 * np.arange(8) / 16)
    positions = np.concatenate((np.sin(angles), np.cos(angles)), axis=1).astype(np.float32)
    for side in ("encoder", "decoder"):
        weights[f"model.{side}.embed_tokens.weight"] = weights["model.shared.weight"]
        weights[f"model.{side}.embed_positions.weight"] = positions
    write_pickle(checkpoint / "pytorch_model.bin", weights, zipped=False)

    add(checkpoint, name="then")

    one, other = (contents(models_dir / name) for name in ("today", "then"))
    assert all(one[name] == other[name] for name in one if name.endswith((".onnx", ".data")))


def test_the_manifest_records_the_source_and_the_written_files(add, checkpoint, models_dir):
    add(checkpoint)

    manifest = Manifest.read(models_dir / "opus-tiny")
    assert (manifest.layout, manifest.architecture, manifest.precision) == ("kv", "marian", "fp32")
    assert (manifest.source, manifest.revision) == (str(checkpoint), None)
    assert manifest.source_files == {name: sha256_of(checkpoint / name) for name in contents(checkpoint)}
    assert manifest.files.keys() == contents(models_dir / "opus-tiny").keys() - {"kvjobs.json"}
    assert list(manifest.differences(models_dir / "opus-tiny")) == []
    assert manifest.versions["onnx"] == onnx.__version__


def test_a_temporary_source_can_be_recorded_under_another_name(add, checkpoint, models_dir):
    add(checkpoint, made_by="python -m tools.demo.train")

    manifest = Manifest.read(models_dir / "opus-tiny")
    assert manifest.source == "python -m tools.demo.train"
    assert str(checkpoint) not in (models_dir / "opus-tiny" / "kvjobs.json").read_text()


@pytest.mark.parametrize("precision", Precision)
def test_the_same_input_gives_the_same_bytes(add, checkpoint, models_dir, precision):
    add(checkpoint, name="one", precision=precision)
    add(checkpoint, name="other", precision=precision)

    assert contents(models_dir / "one") == contents(models_dir / "other")


def test_graphs_can_be_read_by_older_runtimes(add, checkpoint, models_dir):
    add(checkpoint)

    for file in (models_dir / "opus-tiny").glob("*.onnx"):
        model = onnx.load(file, load_external_data=False)
        onnx.checker.check_model(str(file))
        assert model.ir_version <= 10
        assert {opset.domain: opset.version for opset in model.opset_import}[""] <= 21


@pytest.mark.parametrize(
    ("options", "name", "head"),
    [
        ({"precision": Precision.FP32}, "opus-tiny", "full"),
        ({"precision": Precision.INT8}, "opus-tiny-int8", "target"),
        ({"precision": Precision.FP16}, "opus-tiny-fp16", "full"),
        ({"precision": Precision.INT8, "head": HeadChoice.FULL}, "opus-tiny-int8", "full"),
        ({"head": HeadChoice.TARGET}, "opus-tiny", "target"),
        ({"precision": Precision.INT8, "name": "mine"}, "mine", "target"),
    ],
)
def test_name_and_head_follow_the_precision_unless_they_are_given(add, checkpoint, options, name, head):
    added = add(checkpoint, **options)

    assert (added.name, added.head) == (name, head)


def test_a_model_added_from_the_current_folder_has_the_name_of_the_folder(add, checkpoint, monkeypatch):
    monkeypatch.chdir(checkpoint)

    assert add(".").name == "opus-tiny"


@pytest.mark.parametrize("target_vocab_size", [None, 60])
def test_a_target_head_keeps_the_ids_that_a_translation_can_contain(add, tmp_path, models_dir, target_vocab_size):
    add(write_marian_checkpoint(tmp_path / "tiny", target_vocab_size=target_vocab_size), head=HeadChoice.TARGET)

    ids = Manifest.read(models_dir / "tiny").head_ids
    config = json.loads((models_dir / "tiny" / "config.json").read_text())
    assert ids is not None
    assert list(ids) == sorted(set(ids))
    assert {config["eos_token_id"], config["pad_token_id"], config["decoder_start_token_id"]} <= set(ids)
    assert len(ids) < (target_vocab_size or 72)
    tokenizer = MarianTokenizer.open(models_dir / "tiny")
    for sentence in ("pluie et vent", "brume au nord", "neige du soir"):
        vocabulary = "vocab.json" if target_vocab_size is None else "target_vocab.json"
        pieces = json.loads((models_dir / "tiny" / vocabulary).read_text())
        spelled = [pieces[piece] for piece in tokenizer._target.encode(sentence, out_type=str)]
        assert set(spelled) <= set(ids)
        assert tokenizer.decode(spelled) == sentence


# --- folders with graphs


@pytest.mark.parametrize("place", [".", "onnx"])
def test_an_export_is_copied_with_only_the_graphs_that_are_used(add, export, models_dir, place):
    (export / place).mkdir(exist_ok=True)
    for file in export.glob("*.onnx"):
        file.rename(export / place / file.name)
    (export / "README.md").touch()

    added = add(export)

    folder = models_dir / "exported"
    check_files(ModelFolder("exported", folder))
    assert (added.layout, added.precision, added.head_size) == ("optimum", None, None)
    assert {file.name for file in (folder / place).glob("*.onnx")} == {
        "encoder_model.onnx",
        "decoder_model_merged.onnx",
    }
    assert not (folder / "README.md").exists()
    manifest = Manifest.read(folder)
    assert manifest.layout == "optimum"
    assert list(manifest.differences(folder)) == []
    assert all(contents(export)[name] == content for name, content in contents(folder).items() if "kvjobs" not in name)


def test_an_export_that_cannot_run_is_not_added(add, export, models_dir):
    (export / "decoder_model_merged.onnx").write_bytes(b"nonsense")

    with pytest.raises(ModelError, match=r"/exported/decoder_model_merged\.onnx .*ONNX graph"):
        add(export)
    assert os.listdir(models_dir) == []


def test_external_weights_are_copied_with_their_graphs(add, export, models_dir):
    for name in ("decoder_model_merged.onnx_data", "encoder_model.onnx.data", "shared.data", "other_model.onnx_data"):
        (export / name).write_text(name)

    add(export)

    copied = contents(models_dir / "exported")
    assert {"decoder_model_merged.onnx_data", "encoder_model.onnx.data", "shared.data"} <= copied.keys()
    assert "other_model.onnx_data" not in copied


def test_graphs_are_built_from_a_checkpoint_even_if_an_export_is_beside_it(add, checkpoint):
    for file in TINY.glob("*.onnx"):
        shutil.copy(file, checkpoint)

    assert add(checkpoint).layout == "kv"


def test_a_model_that_kvjobs_made_is_copied_unchanged(add, checkpoint, models_dir, tmp_path):
    add(checkpoint, precision=Precision.INT8)
    moved = (models_dir / "opus-tiny-int8").rename(tmp_path / "moved")
    (moved / "notes.txt").touch()

    added = add(moved)

    assert (added.name, added.precision, added.source) == ("moved", "int8", str(checkpoint))
    (moved / "notes.txt").unlink()
    assert contents(models_dir / "moved") == contents(moved)


def test_a_damaged_model_that_kvjobs_made_is_refused(add, checkpoint, models_dir):
    add(checkpoint)
    weights = models_dir / "opus-tiny" / "weights.data"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")

    with pytest.raises(ModelError, match=r"weights\.data .*checksum"):
        add(models_dir / "opus-tiny", name="copy")
    assert os.listdir(models_dir) == ["opus-tiny"]


@pytest.mark.parametrize("options", [{"precision": Precision.INT8}, {"head": HeadChoice.FULL}])
def test_options_for_building_graphs_are_refused_for_an_export(add, export, models_dir, options):
    (option, value) = next(iter(options.items()))

    with pytest.raises(SpecError, match=f"--{option} {value} .*building graphs"):
        add(export, **options)
    assert os.listdir(models_dir) == []


# --- refusals


@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "..", "/", "a\0"])
def test_an_invalid_name_is_refused(add, checkpoint, models_dir, name):
    with pytest.raises(SpecError, match="cannot be the name"):
        add(checkpoint, name=name)
    assert not models_dir.exists()


def test_a_name_that_is_taken_is_refused_before_any_work(add, checkpoint, models_dir):
    (models_dir / "opus-tiny").mkdir(parents=True)
    (checkpoint / "model.safetensors").unlink()

    with pytest.raises(SpecError, match=r"already .*opus-tiny"):
        add(checkpoint)


def test_force_replaces_the_old_model(add, checkpoint, models_dir):
    add(checkpoint)
    before = contents(models_dir / "opus-tiny")

    add(checkpoint, precision=Precision.INT8, name="opus-tiny", force=True)

    assert contents(models_dir / "opus-tiny") != before
    assert os.listdir(models_dir) == ["opus-tiny"]


def test_a_failing_force_keeps_the_old_model(add, checkpoint, models_dir):
    add(checkpoint)
    before = contents(models_dir / "opus-tiny")
    (checkpoint / "model.safetensors").write_bytes(b"cut")

    with pytest.raises(ModelError):
        add(checkpoint, force=True)

    assert contents(models_dir / "opus-tiny") == before
    assert os.listdir(models_dir) == ["opus-tiny"]


@pytest.mark.parametrize("source", ["", "nothing", "./nothing/here", "/no/such/folder", "a/b/c", "a\0b", "x" * 5000])
def test_a_source_that_is_neither_a_folder_nor_an_id_is_not_found(add, source, models_dir):
    with pytest.raises(NotFoundError, match=r"folder.*GGUF file.*id"):
        add(source, name="any")
    assert not models_dir.exists()


def spoil_config(folder: Path) -> None:
    (folder / "config.json").write_text('{"architectures": ["BlenderbotForConditionalGeneration"]}')


def spoil_weights(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-10])


def spoil_generation(folder: Path) -> None:
    (folder / "generation_config.json").write_text('{"do_sample": true}')


def spoil_spm(folder: Path) -> None:
    (folder / "target.spm").write_bytes(b"nonsense")


def spoil_names(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes().replace(b"encoder.layers.1.fc1.bias", b"encoder.lay1.position_ids"))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_config, "BlenderbotForConditionalGeneration"),
        (spoil_weights, r"model\.safetensors is damaged"),
        (spoil_spm, r"target\.spm .*SentencePiece model"),
        (spoil_names, r"lacks the tensor model\.encoder\.layers\.1\.fc1\.bias"),
        (spoil_generation, r"generation_config\.json sets do_sample = true"),
        (lambda folder: (folder / "vocab.json").unlink(), r"vocab\.json is missing"),
        (lambda folder: (folder / "config.json").unlink(), r"config\.json does not exist"),
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
