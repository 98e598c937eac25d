"""Which folder a model name means, and what is said where it means none."""

import dataclasses
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import ModelError, NotFoundError
from jobs.spec import Task
from tests.places import DEMO_MODEL
from worker.models import registry
from worker.models.contents.kind import kind_of
from worker.models.contents.layout_name import layout_of
from worker.models.contents.required_files import check_files
from worker.models.file_names import CHECKPOINT
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder, read_manifest
from worker.models.model_kind import ModelKind
from worker.models.registry import default_model, find_model, list_models

TOKENIZER = ["source.spm", "target.spm", "vocab.json"]


COMPLETE = ["config.json", "encoder_model.onnx", "decoder_model_merged.onnx", *TOKENIZER]


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    for name in ("opus-mt-en-de", "opus-mt-en-zh"):
        make_model(tmp_path / "models" / name)
    (tmp_path / "models" / "notes.txt").write_text("not a model")
    (tmp_path / "models" / ".cache").mkdir()
    return tmp_path / "models"


@pytest.fixture(autouse=True)
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(registry, "BUNDLED", {"demo-en-zh": tmp_path / "bundled", "demo-none": tmp_path / "none"})
    return make_model(tmp_path / "bundled")


def make_model(folder: Path, names: list[str] | None = None) -> Path:
    folder.mkdir(parents=True)
    for name in COMPLETE if names is None else names:
        (folder / name).write_text("{}" if name.endswith(".json") else name)
    return folder


# --- finding
def test_a_name_is_a_folder_of_the_users_models(models_dir):
    assert find_model("opus-mt-en-de", models_dir) == ModelFolder("opus-mt-en-de", models_dir / "opus-mt-en-de")


def test_a_bundled_model_needs_no_models_folder(models_dir, bundled, tmp_path):
    assert find_model("demo-en-zh", tmp_path / "no-such-folder") == ModelFolder("demo-en-zh", bundled)


def test_a_users_model_hides_the_bundled_one_of_its_name(models_dir):
    mine = make_model(models_dir / "demo-en-zh")

    assert find_model("demo-en-zh", models_dir).path == mine
    assert [folder.path for folder in list_models(models_dir) if folder.name == "demo-en-zh"] == [mine]


def test_the_name_of_a_path_is_absolute(models_dir, monkeypatch):
    monkeypatch.chdir(models_dir)
    expected = models_dir / "opus-mt-en-de"

    for name in ("./opus-mt-en-de", "../models/opus-mt-en-de/", str(expected)):
        assert find_model(name, models_dir / "elsewhere") == ModelFolder(str(expected), expected)


def test_a_folder_here_may_be_named_without_a_separator(models_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_model(tmp_path / "export")

    assert find_model("export", models_dir).name == str(tmp_path / "export")
    assert find_model(".", models_dir).name == str(tmp_path)


def test_a_name_comes_before_a_folder_here(models_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_model(tmp_path / "opus-mt-en-de")

    assert find_model("opus-mt-en-de", models_dir).path == models_dir / "opus-mt-en-de"


def test_a_link_is_not_resolved(models_dir, tmp_path):
    link = tmp_path / "current"
    link.symlink_to(models_dir / "opus-mt-en-de")

    assert find_model(str(link), models_dir).path == link


def test_an_unknown_name_is_answered_with_the_known_ones(models_dir):
    with pytest.raises(NotFoundError) as caught:
        find_model("opus-mt-en-ze", models_dir)

    assert "did you mean opus-mt-en-" in str(caught.value)
    assert "demo-en-zh, opus-mt-en-de, opus-mt-en-zh" in str(caught.value)
    assert "demo-none" not in str(caught.value)


def test_a_hub_name_is_answered_with_how_to_add_it(models_dir):
    with pytest.raises(NotFoundError, match=r"no folder 'Helsinki-NLP/opus-mt-en-de'.* `kvjobs models add SOURCE`"):
        find_model("Helsinki-NLP/opus-mt-en-de", models_dir)


@pytest.mark.parametrize("name", ["", "\0", "a\0b", "x" * 300, "x/" * 3000, "\ud800", "notes.txt", ".cache", "~"])
def test_what_is_no_name_is_not_found(models_dir, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(NotFoundError):
        find_model(name, models_dir)


@given(st.lists(st.sampled_from(["..", ".", "/", "opus-mt-en-de", "models", "\\", "bundled"])).map("".join))
def test_a_plain_name_never_leaves_the_models_folder(name):
    if registry.is_model_name(name):
        assert os.path.normpath(os.path.join("/models", name)) == f"/models/{name}"
        assert os.path.dirname(f"/models/{name}") == "/models"


def test_the_list_is_what_can_be_found(models_dir):
    listed = list_models(models_dir)

    assert [folder.name for folder in listed] == ["demo-en-zh", "opus-mt-en-de", "opus-mt-en-zh"]
    assert all(find_model(folder.name, models_dir) == folder for folder in listed)


# --- checking
def test_complete_folders_pass(tmp_path):
    tokenizer = ["config.json", *TOKENIZER]
    for name, graphs in {
        "merged": ["encoder_model.onnx", "decoder_model_merged.onnx"],
        "two": ["encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx"],
        "no-cache": ["encoder_model.onnx", "decoder_model.onnx"],
    }.items():
        check_files(ModelFolder(name, make_model(tmp_path / name, [*tokenizer, *graphs])))


def test_graphs_may_lie_in_a_folder_of_their_own(tmp_path):
    folder = make_model(tmp_path / "m", ["config.json", *TOKENIZER])
    make_model(folder / "onnx", ["encoder_model.onnx", "decoder_model.onnx"])

    check_files(ModelFolder("m", folder))


@pytest.mark.parametrize("name", ["config.json", "encoder_model.onnx", *TOKENIZER])
def test_a_missing_file_is_named_with_how_to_export(tmp_path, name):
    folder = make_model(tmp_path / "m")
    (folder / name).unlink()

    with pytest.raises(ModelError, match=f"/m/{name} is missing: .*optimum-cli export onnx --model .* --task"):
        check_files(ModelFolder("m", folder))


def test_a_decoder_with_past_alone_is_not_enough(tmp_path):
    names = ["config.json", "encoder_model.onnx", "decoder_with_past_model.onnx", *TOKENIZER]

    with pytest.raises(ModelError, match=r"decoder_model\.onnx is missing: the decoder \(or decoder_model_merged"):
        check_files(ModelFolder("m", make_model(tmp_path / "m", names)))


@pytest.mark.parametrize("weights", CHECKPOINT)
def test_a_checkpoint_is_told_how_to_become_a_model(tmp_path, weights):
    folder = make_model(tmp_path / "m", ["config.json", weights, *TOKENIZER])

    with pytest.raises(ModelError, match=f"/m is a checkpoint, .* run `kvjobs models add {folder}`"):
        check_files(ModelFolder("m", folder))
    assert layout_of(ModelFolder("m", folder)) is None


KV = ["config.json", "encoder.onnx", "decoder.onnx", "weights.data", *TOKENIZER]


def make_kv(folder: Path, names: list[str] = KV) -> Path:
    make_model(folder, names)
    manifest = Manifest(
        layout="kv",
        architecture="marian",
        precision="int8",
        head="full",
        head_ids=None,
        source="OWNER/NAME",
        revision=None,
        source_files={},
        files={},
        versions={},
    )
    (folder / "kvjobs.json").write_bytes(manifest.to_bytes())
    return folder


def test_a_folder_that_models_add_made_is_complete(tmp_path):
    folder = ModelFolder("m", make_kv(tmp_path / "m"))

    check_files(folder)
    assert layout_of(folder) == "kv"
    assert (manifest := read_manifest(folder)) is not None
    assert manifest.precision == "int8"


@pytest.mark.parametrize("name", KV)
def test_a_file_that_models_add_wrote_and_that_is_gone_is_named(tmp_path, name):
    folder = make_kv(tmp_path / "m", [other for other in KV if other != name])

    with pytest.raises(ModelError, match=f"/m/{name} is missing: `kvjobs models add OWNER/NAME` .* --force"):
        check_files(ModelFolder("m", folder))


def test_the_layout_of_an_export_shows_in_its_names(tmp_path):
    for layout, graphs in {
        "merged": ["encoder_model.onnx", "decoder_model_merged.onnx", "decoder_model.onnx"],
        "two decoders": ["encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx"],
        "no cache": ["encoder_model.onnx", "decoder_model.onnx"],
        None: ["encoder_model.onnx", "decoder_with_past_model.onnx"],
    }.items():
        make_model(tmp_path / str(layout) / "onnx", graphs)
        assert layout_of(ModelFolder("m", tmp_path / str(layout))) == layout


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a Git LFS pointer")],
)
@pytest.mark.parametrize("name", ["decoder_model_merged.onnx", "target.spm"])
def test_a_hollow_file_is_named(tmp_path, name, content, message):
    folder = make_model(tmp_path / "m")
    (folder / name).write_bytes(content)

    with pytest.raises(ModelError, match=f"{name} {message}"):
        check_files(ModelFolder("m", folder))


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path):
    folder = make_model(tmp_path / "m")
    (tmp_path / "elsewhere").write_text("secret")
    (folder / "weights.data").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ModelError, match=r"m/weights\.data is a link to .*elsewhere, outside of the model's folder"):
        check_files(ModelFolder("m", folder))


def test_a_folder_of_graphs_that_leads_elsewhere_is_not_followed(tmp_path):
    folder = make_model(tmp_path / "m", ["config.json", *TOKENIZER])
    (folder / "onnx").symlink_to(make_model(tmp_path / "elsewhere"))

    with pytest.raises(ModelError, match="outside of the model's folder"):
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


# --- revision
def test_a_copy_has_the_revision_of_the_original(tmp_path):
    assert revision(make_model(tmp_path / "a")) == revision(make_model(tmp_path / "elsewhere" / "b"))


@pytest.mark.parametrize(
    "name",
    [
        "encoder_model.onnx",
        "encoder_model.onnx_data",
        "encoder_model.onnx.data",
        "weights.data",
        "kvjobs.json",
        "config.json",
        "source.spm",
    ],
)
def test_whatever_decides_results_is_in_the_revision(tmp_path, name):
    more = ["encoder_model.onnx_data", "encoder_model.onnx.data", "weights.data", "kvjobs.json"]
    before = make_model(tmp_path / "m", [*COMPLETE, *more])
    first = revision(before)

    (before / name).write_text("another")
    second = revision(before)
    (before / name).unlink()

    assert len({first, second, revision(before)}) == 3


def test_graphs_in_their_own_folder_are_in_the_revision(tmp_path):
    folder = make_model(tmp_path / "m", ["config.json", *TOKENIZER])
    make_model(folder / "onnx", ["encoder_model.onnx"])
    first = revision(folder)

    (folder / "onnx" / "encoder_model.onnx").write_text("another")

    assert revision(folder) != first


def test_what_merely_lies_beside_a_model_is_not_in_its_revision(tmp_path):
    folder = make_model(tmp_path / "m")
    first = revision(folder)

    for name in ("README.md", ".gitattributes", "LICENSE", "model.safetensors", ".hidden.json"):
        (folder / name).write_text(name)
    make_model(folder / "checkpoint-100", ["config.json"])

    assert revision(folder) == first


@pytest.mark.parametrize("contents", [{"a.json": "x", "b.json": "yz"}, {"a.json": "xyb.json\0z"}])
def test_moving_bytes_from_file_to_file_changes_the_revision(tmp_path, contents):
    one, other = make_model(tmp_path / "one", []), make_model(tmp_path / "other", [])
    (one / "a.json").write_text("xy")
    (one / "b.json").write_text("z")
    for name, content in contents.items():
        (other / name).write_text(content)

    assert revision(one) != revision(other)


def revision(folder: Path) -> str:
    return ModelFolder("m", folder).revision()


def test_a_bundled_model_that_lacks_a_file_is_mended_by_installing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by adding it: what made it is not on the user's machine."""
    bundled = tmp_path / "in the package"
    shutil.copytree(DEMO_MODEL, bundled)
    (bundled / "decoder.onnx").unlink()
    monkeypatch.setattr(registry, "BUNDLED", {registry.DEFAULT_MODEL: bundled})

    with pytest.raises(ModelError, match=r"decoder\.onnx is missing: it comes with kvjobs: install that again"):
        check_files(find_model(registry.DEFAULT_MODEL, tmp_path / "models"))


# --- causal language models
CAUSAL_KV = ["config.json", "body.onnx", "head.onnx", "weights.data", "tokenizer.json"]


CAUSAL_EXPORT = ["config.json", "model.onnx", "tokenizer.json"]


def make_causal(folder: Path, names: list[str] = CAUSAL_KV) -> ModelFolder:
    path = make_kv(folder, names)
    manifest = dataclasses.replace(Manifest.read(path), architecture="qwen2", head=None)
    (path / "kvjobs.json").write_bytes(manifest.to_bytes())
    return ModelFolder(folder.name, path)


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


def test_a_causal_folder_that_models_add_made_is_complete(tmp_path):
    folder = make_causal(tmp_path / "lm")

    check_files(folder)
    assert layout_of(folder) == "kv"


@pytest.mark.parametrize("name", CAUSAL_KV)
def test_a_file_of_a_causal_model_that_is_gone_is_named(tmp_path, name):
    folder = make_causal(tmp_path / "lm", [other for other in CAUSAL_KV if other != name])

    with pytest.raises(ModelError, match=f"/lm/{name} is missing: `kvjobs models add OWNER/NAME` .* --force"):
        check_files(folder)


def test_what_is_no_graph_has_no_layout(tmp_path):
    assert layout_of(ModelFolder("m", make_model(tmp_path / "m", CAUSAL_EXPORT))) is None


@pytest.mark.parametrize("name", CAUSAL_EXPORT)
def test_what_a_causal_export_lacks_is_named_with_how_to_export(tmp_path, name):
    folder = make_model(tmp_path / "m", [other for other in CAUSAL_EXPORT if other != name])
    if name == "model.onnx":
        (folder / "config.json").write_text('{"architectures": ["GPT2LMHeadModel"]}')

    with pytest.raises(ModelError, match=f"/m/{name} is missing: .*--task text-generation-with-past FOLDER"):
        check_files(ModelFolder("m", folder))


def test_a_tokenizer_in_another_form_is_told_how_to_become_one(tmp_path):
    folder = make_model(tmp_path / "m", ["config.json", "model.onnx", "tokenizer.model"])

    with pytest.raises(ModelError, match=r"/m/tokenizer\.json is missing: tokenizer\.model alone .* AutoTokenizer"):
        check_files(ModelFolder("m", folder))


def test_a_causal_checkpoint_is_told_how_to_become_a_model(tmp_path):
    folder = make_model(tmp_path / "m", ["model.safetensors", "tokenizer.json"])
    (folder / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')

    with pytest.raises(ModelError, match=f"/m is a checkpoint, .* run `kvjobs models add {folder}`"):
        check_files(ModelFolder("m", folder))


@pytest.mark.parametrize("name", ["tokenizer.json", "model.onnx_data", "model.onnx"])
def test_whatever_decides_the_results_of_a_causal_export_is_in_its_revision(tmp_path, name):
    folder = make_model(tmp_path / "m", [*CAUSAL_EXPORT, "model.onnx_data"])
    first = revision(folder)

    (folder / name).write_text("another")

    assert revision(folder) != first


def test_each_task_has_a_bundled_model():
    assert {task.value: default_model(task) for task in Task} == {
        "translate": "demo-en-zh",
        "score": "demo-lm",
        "rerank": "demo-lm",
    }


def test_a_bundled_model_that_is_not_in_the_installation_is_said_to_be_so(models_dir):
    with pytest.raises(
        NotFoundError, match=r"bundled model demo-none is not in this installation \(.*/none is missing"
    ):
        find_model("demo-none", models_dir)


# --- stamps
def overwrite_with_the_old_time(file: Path) -> None:
    before = file.stat()
    file.write_text(file.read_text().swapcase())
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_by_another(file: Path) -> None:
    new = file.with_name(".new")
    shutil.copy2(file, new)
    new.replace(file)


@pytest.mark.parametrize("change", [overwrite_with_the_old_time, replace_by_another, Path.unlink])
def test_stamps_tell_that_a_file_was_overwritten_replaced_or_removed(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    folder = ModelFolder("a", make_model(tmp_path / "a"))
    before = folder.stamps()
    assert folder.stamps() == before

    change(tmp_path / "a" / "encoder_model.onnx")

    after = folder.stamps()
    assert {name for name in before if before[name] != after.get(name)} == {"encoder_model.onnx"}
