"""The message for the user if the files of a tokenizer are missing, broken, or of different models."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import ModelError
from worker.text.translation.marian_tokenizer import MarianTokenizer


@pytest.mark.parametrize("name", ["source.spm", "target.spm", "vocab.json", "target_vocab.json", "config.json"])
def test_a_missing_file_is_named(folders, tmp_path, name):
    folder = copy_without(folders["tc-big"], tmp_path / "copy", name)

    with pytest.raises(ModelError, match=f"{name} is missing"):
        MarianTokenizer.open(folder)


@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\n", b"\xff\xfe\x00", b"[1, 2]"])
@pytest.mark.parametrize("name", ["source.spm", "target.spm", "vocab.json", "target_vocab.json", "config.json"])
def test_a_broken_file_is_named(folders, tmp_path, name, content):
    folder = copy_without(folders["tc-big"], tmp_path / "copy", name)
    (folder / name).write_bytes(content)

    with pytest.raises(ModelError, match=re.escape(str(folder / name))):
        MarianTokenizer.open(folder)


Edit = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        ("vocab.json", lambda ids: ids.pop("<unk>"), "vocab.json has no piece <unk>"),
        ("vocab.json", lambda ids: ids.update({"雨": "7"}), "vocab.json gives piece '雨' the id '7'"),
        ("vocab.json", lambda ids: ids.update({"雨": -1}), "vocab.json gives piece '雨' the id -1"),
        ("vocab.json", lambda ids: ids.update({"雨": 10**6}), "has ids up to 1000000, but config.json"),
        ("config.json", lambda config: config.update(eos_token_id=5), "has </s> as 0, but config.json .* = 5"),
        ("config.json", lambda config: config.update(pad_token_id=5), "has <pad> as .*, but config.json .* = 5"),
    ],
)
def test_files_that_contradict_each_other_are_refused(folders, tmp_path, name, edit: Edit, message):
    folder = copy_without(folders["opus"], tmp_path / "copy", name)
    content = json.loads((folders["opus"] / name).read_text())
    edit(content)
    (folder / name).write_text(json.dumps(content))

    with pytest.raises(ModelError, match=message):
        MarianTokenizer.open(folder)


def test_the_end_id_is_taken_from_the_configuration_if_the_vocabulary_has_none(folders, tmp_path):
    folder = copy_without(folders["opus"], tmp_path / "copy", "vocab.json")
    ids = json.loads((folders["opus"] / "vocab.json").read_text())
    del ids["</s>"], ids["<pad>"]
    (folder / "vocab.json").write_text(json.dumps(ids))

    assert MarianTokenizer.open(folder).encode("", None) == [0]


def test_a_list_with_one_end_id_is_accepted(folders, tmp_path):
    folder = copy_without(folders["opus"], tmp_path / "copy", "config.json")
    (folder / "config.json").write_text(json.dumps({"eos_token_id": [0]}))

    assert MarianTokenizer.open(folder).eos_id == 0


def copy_without(source: Path, folder: Path, name: str) -> Path:
    folder.mkdir()
    for file in source.iterdir():
        if file.name != name:
            (folder / file.name).write_bytes(file.read_bytes())
    return folder
