"""kvjobs.json: its content, and the message about an invalid one."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import ModelError
from tests.messages import line_with
from worker.models.manifest import AttentionChoice, Manifest, deciding_content, records
from worker.text.marks.known_words import StandIn, StandIns


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "decoder.onnx").write_bytes(b"graph")
    (tmp_path / "weights.data").write_bytes(b"\1\2\3")
    return tmp_path


@pytest.fixture
def manifest(folder: Path) -> Manifest:
    return Manifest(
        layout="kv",
        architecture="marian",
        precision="int8",
        head="target",
        head_ids=(0, 2, 5),
        source="Helsinki-NLP/opus-mt-en-zh",
        revision="0123abc",
        source_files={"model.safetensors": "f" * 64},
        files=records(folder, ["weights.data", "onnx/decoder.onnx"]),
        versions={"kvjobs": "1.0"},
    )


def write(folder: Path, manifest: Manifest, **changes: Any) -> None:
    content = json.loads(manifest.to_bytes()) | changes
    (folder / "kvjobs.json").write_text(json.dumps(content))


def test_a_manifest_is_read_back_as_it_was_written(folder, manifest):
    (folder / "kvjobs.json").write_bytes(manifest.to_bytes())

    assert Manifest.read(folder) == manifest


def test_what_was_measured_is_read_back_and_decides_nothing(folder, manifest):
    stand_ins = StandIns(True, (StandIn("London", "伦敦"),), (StandIn("Monday", "周一"),))
    attention = AttentionChoice((2,), reads=True, agreement=0.5, head=3)
    measured = dataclasses.replace(manifest, attention=attention, stand_ins=stand_ins)
    (folder / "kvjobs.json").write_bytes(measured.to_bytes())

    assert Manifest.read(folder) == measured
    assert deciding_content(measured.to_bytes()) == manifest.to_bytes()
    write(folder, measured, attention={"layers": [], "reads": True, "agreement": None})
    with pytest.raises(ModelError, match="attention without layers"):
        Manifest.read(folder)
    write(folder, measured, stand_ins={"numbers": True, "names": [{"form": "London", "written": ""}]})
    with pytest.raises(ModelError, match="stand-in without letters"):
        Manifest.read(folder)


def test_a_manifest_of_a_version_that_knew_no_heads_takes_the_mean_of_all(folder, manifest):
    write(folder, manifest, attention={"layers": [1, 2], "reads": True, "agreement": 0.5})

    assert Manifest.read(folder).attention == AttentionChoice((1, 2), reads=True, agreement=0.5, head=None)


@pytest.mark.parametrize(("layers", "head"), [([1, 2], 0), ([1], -1), ([1], "first")])
def test_a_head_that_no_layer_has_is_refused(folder, manifest, layers, head):
    write(folder, manifest, attention={"layers": layers, "reads": False, "agreement": None, "head": head})

    with pytest.raises(ModelError, match="invalid one"):
        Manifest.read(folder)


def test_the_bytes_are_json_with_sorted_names_and_without_a_time(folder, manifest):
    written = json.loads(manifest.to_bytes())
    shuffled = dataclasses.replace(manifest, files=dict(reversed(manifest.files.items())))

    assert list(written) == sorted(written)
    assert written["format"] == 1
    assert written["files"]["weights.data"]["bytes"] == 3
    optional = {"split", "drift", "attention", "stand_ins"}
    assert written.keys() == {field.name for field in dataclasses.fields(Manifest)} - optional | {"format"}
    assert shuffled.to_bytes() == manifest.to_bytes()


def test_a_folder_as_it_was_written_has_no_differences(folder, manifest):
    assert list(manifest.differences(folder)) == []


def test_each_file_that_differs_is_reported_with_one_sentence(folder, manifest):
    (folder / "onnx" / "decoder.onnx").write_bytes(b"Graph")
    (folder / "weights.data").write_bytes(b"\1\2")

    decoder, weights = manifest.differences(folder)
    assert line_with(decoder, "onnx/decoder.onnx", "checksum", "kvjobs.json")
    assert line_with(weights, "weights.data", "2 bytes", "kvjobs.json", "3")

    (folder / "weights.data").unlink()
    assert "weights.data is missing" in list(manifest.differences(folder))[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "format 2, and this kvjobs reads 1: upgrade"),
        ({"layout": "tuned"}, "layout 'tuned'"),
        ({"head_ids": ["a"]}, "invalid one"),
        ({"files": {"../../etc/passwd": {"bytes": 1, "sha256": "0" * 64}}}, "etc/passwd"),
        ({"files": {"weights.data": {"bytes": 1}}}, "sha256"),
        ({"files": []}, "lacks a field"),
    ],
)
def test_an_invalid_manifest_is_refused_with_one_sentence(folder, manifest, changes, message):
    write(folder, manifest, **changes)

    with pytest.raises(ModelError, match=message):
        Manifest.read(folder)


@pytest.mark.parametrize("content", [b"", b"[1]", b"\xff", b'{"format": 1}'])
def test_a_damaged_manifest_is_refused_with_one_sentence(folder, content):
    (folder / "kvjobs.json").write_bytes(content)

    with pytest.raises(ModelError, match=r"kvjobs\.json .*(JSON|format|field)"):
        Manifest.read(folder)
