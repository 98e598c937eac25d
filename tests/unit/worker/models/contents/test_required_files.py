"""A model folder that lacks a file is refused, with the name of the file and what to do."""

import shutil
from pathlib import Path

import pytest

from jobs.errors import ModelError
from tests.model_folders import CAUSAL_EXPORT, CAUSAL_KV, COMPLETE, KV, TOKENIZER, make_causal, make_kv, make_model
from tests.places import DEMO_MODEL
from worker.models import registry
from worker.models.contents.present_files import layout_of
from worker.models.contents.required_files import check_files
from worker.models.file_names import CHECKPOINT
from worker.models.model_folder import ModelFolder, read_manifest
from worker.models.registry import find_model


def test_complete_folders_are_accepted(tmp_path):
    tokenizer = ["config.json", *TOKENIZER]
    for name, graphs in {
        "merged": ["encoder_model.onnx", "decoder_model_merged.onnx"],
        "two": ["encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx"],
        "no-cache": ["encoder_model.onnx", "decoder_model.onnx"],
    }.items():
        check_files(ModelFolder(name, make_model(tmp_path / name, [*tokenizer, *graphs])))


def test_graphs_may_be_in_a_folder_of_their_own(tmp_path):
    folder = make_model(tmp_path / "m", ["config.json", *TOKENIZER])
    make_model(folder / "onnx", ["encoder_model.onnx", "decoder_model.onnx"])

    check_files(ModelFolder("m", folder))


@pytest.mark.parametrize("name", ["config.json", "encoder_model.onnx", *TOKENIZER])
def test_a_missing_file_is_named_with_how_to_export(tmp_path, name):
    folder = make_model(tmp_path / "m")
    (folder / name).unlink()

    with pytest.raises(ModelError, match=f"/m/{name} is missing: .*optimum-cli .*--task"):
        check_files(ModelFolder("m", folder))


def test_a_decoder_with_past_alone_is_not_enough(tmp_path):
    names = ["config.json", "encoder_model.onnx", "decoder_with_past_model.onnx", *TOKENIZER]

    with pytest.raises(ModelError, match=r"decoder_model\.onnx is missing: .*decoder_model_merged"):
        check_files(ModelFolder("m", make_model(tmp_path / "m", names)))


@pytest.mark.parametrize("weights", CHECKPOINT)
def test_a_checkpoint_is_refused_with_how_to_add_it(tmp_path, weights):
    folder = make_model(tmp_path / "m", ["config.json", weights, *TOKENIZER])

    with pytest.raises(ModelError, match=f"/m .*checkpoint.*`kvjobs models add {folder}`"):
        check_files(ModelFolder("m", folder))
    assert layout_of(ModelFolder("m", folder)) is None


def test_a_folder_that_models_add_made_is_complete(tmp_path):
    folder = ModelFolder("m", make_kv(tmp_path / "m"))

    check_files(folder)
    assert layout_of(folder) == "kv"
    assert (manifest := read_manifest(folder)) is not None
    assert manifest.precision == "int8"


@pytest.mark.parametrize("name", KV)
def test_a_missing_file_that_models_add_wrote_is_named(tmp_path, name):
    folder = make_kv(tmp_path / "m", [other for other in KV if other != name])

    with pytest.raises(ModelError, match=f"/m/{name} is missing: .*`kvjobs models add OWNER/NAME`.*--force"):
        check_files(ModelFolder("m", folder))


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a Git LFS pointer")],
)
@pytest.mark.parametrize("name", ["decoder_model_merged.onnx", "target.spm"])
def test_an_empty_file_or_lfs_pointer_is_named(tmp_path, name, content, message):
    folder = make_model(tmp_path / "m")
    (folder / name).write_bytes(content)

    with pytest.raises(ModelError, match=f"{name} {message}"):
        check_files(ModelFolder("m", folder))


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    folder = make_model(tmp_path / "m")
    (tmp_path / "elsewhere").write_text("secret")
    (folder / "weights.data").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ModelError, match=r"m/weights\.data .*link .*elsewhere.*outside"):
        check_files(ModelFolder("m", folder))


def test_a_folder_of_graphs_that_links_elsewhere_is_not_followed(tmp_path):
    folder = make_model(tmp_path / "m", ["config.json", *TOKENIZER])
    (folder / "onnx").symlink_to(make_model(tmp_path / "elsewhere"))

    with pytest.raises(ModelError, match="outside"):
        check_files(ModelFolder("m", folder))


def test_links_within_the_folder_and_into_a_cache_of_the_hub_are_followed(tmp_path):
    make_model(tmp_path / "m")
    (tmp_path / "m" / "copy.data").symlink_to("encoder_model.onnx")
    (tmp_path / "link").symlink_to("m")
    cached = tmp_path / "hub" / "models--a--b"
    make_model(cached / "blobs")
    snapshot = cached / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    for name in COMPLETE:
        (snapshot / name).symlink_to(Path("../../blobs") / name)

    for folder in (tmp_path / "m", tmp_path / "link", snapshot):
        check_files(ModelFolder("m", folder))


def test_a_copy_of_a_bundled_model_that_lacks_a_file_is_copied_again(tmp_path: Path) -> None:
    """`models add` cannot write it: what the manifest names is the program that trained it."""
    copy = tmp_path / "copy"
    shutil.copytree(DEMO_MODEL, copy)
    (copy / "decoder.onnx").unlink()

    with pytest.raises(ModelError, match=r"decoder\.onnx is missing: .*copy"):
        check_files(ModelFolder("copy", copy))


def test_a_bundled_model_that_lacks_a_file_is_repaired_by_reinstalling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by `models add`: its checkpoint is not on the user's machine."""
    bundled = tmp_path / "in the package"
    shutil.copytree(DEMO_MODEL, bundled)
    (bundled / "decoder.onnx").unlink()
    monkeypatch.setattr(registry, "BUNDLED", {registry.DEFAULT_MODEL: bundled})

    with pytest.raises(ModelError, match=r"decoder\.onnx is missing: .*install"):
        check_files(find_model(registry.DEFAULT_MODEL, tmp_path / "models"))


def test_a_causal_folder_that_models_add_made_is_complete(tmp_path):
    folder = make_causal(tmp_path / "lm")

    check_files(folder)
    assert layout_of(folder) == "kv"


@pytest.mark.parametrize("name", CAUSAL_KV)
def test_a_missing_file_of_a_causal_model_is_named(tmp_path, name):
    folder = make_causal(tmp_path / "lm", [other for other in CAUSAL_KV if other != name])

    with pytest.raises(ModelError, match=f"/lm/{name} is missing: .*`kvjobs models add OWNER/NAME`.*--force"):
        check_files(folder)


@pytest.mark.parametrize("name", CAUSAL_EXPORT)
def test_a_missing_file_of_a_causal_export_is_named_with_how_to_export(tmp_path, name):
    folder = make_model(tmp_path / "m", [other for other in CAUSAL_EXPORT if other != name])
    if name == "model.onnx":
        (folder / "config.json").write_text('{"architectures": ["GPT2LMHeadModel"]}')

    with pytest.raises(ModelError, match=f"/m/{name} is missing: .*--task text-generation-with-past"):
        check_files(ModelFolder("m", folder))


def test_a_tokenizer_in_another_format_is_refused_with_how_to_convert_it(tmp_path):
    folder = make_model(tmp_path / "m", ["config.json", "model.onnx", "tokenizer.model"])

    with pytest.raises(ModelError, match=r"/m/tokenizer\.json is missing: .*tokenizer\.model .*AutoTokenizer"):
        check_files(ModelFolder("m", folder))


def test_a_causal_checkpoint_is_refused_with_how_to_add_it(tmp_path):
    folder = make_model(tmp_path / "m", ["model.safetensors", "tokenizer.json"])
    (folder / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')

    with pytest.raises(ModelError, match=f"/m .*checkpoint.*`kvjobs models add {folder}`"):
        check_files(ModelFolder("m", folder))
