"""What is said about a model folder, whole or broken. The graphs are the tiny ones of the golden files."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from worker.models.inspect import ModelDescription, inspect_model
from worker.models.registry import ModelFolder

TINY = Path(__file__).parents[2] / "golden" / "tiny-swish-tied"
GRAPHS = {
    "merged": ["encoder_model.onnx", "decoder_model_merged.onnx"],
    "two decoders": ["encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx"],
    "no cache": ["encoder_model.onnx", "decoder_model.onnx"],
}


@pytest.fixture(scope="session")
def spm() -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["rain in the hills", "snow on the plain"] * 5),
        model_writer=model,
        vocab_size=30,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
    )
    return model.getvalue()


@pytest.fixture
def folder(tmp_path: Path, spm: bytes) -> Path:
    """A model with every graph of every layout, and a vocabulary with two labels."""
    folder = shutil.copytree(TINY, tmp_path / "tiny")
    keep_graphs(folder, [name for names in GRAPHS.values() for name in names])
    config = read(folder / "config.json")
    pieces = sentencepiece.SentencePieceProcessor(model_proto=spm)
    ids = {piece: 10 + i for i, piece in enumerate(pieces.id_to_piece(i) for i in range(3, len(pieces)))}
    ids |= {"</s>": config["eos_token_id"], "<pad>": config["pad_token_id"], "<unk>": 1, ">>fra<<": 2, ">>deu<<": 3}
    assert len(set(ids.values())) == len(ids)
    (folder / "vocab.json").write_text(json.dumps(ids))
    (folder / "source.spm").write_bytes(spm)
    (folder / "target.spm").write_bytes(spm)
    return folder


def read(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def look(folder: Path) -> ModelDescription:
    return inspect_model(ModelFolder("tiny", folder))


def keep_graphs(folder: Path, names: list[str]) -> None:
    for file in folder.glob("*.onnx"):
        if file.name not in names:
            file.unlink()


@pytest.mark.parametrize("layout", GRAPHS)
def test_a_model_that_runs_is_described_from_its_graphs(folder, layout):
    keep_graphs(folder, GRAPHS[layout])
    config = read(folder / "config.json")

    seen = look(folder)

    assert seen.problems == ()
    assert seen.layout == layout
    if layout == "no cache":
        assert (seen.num_layers, seen.num_heads, seen.head_size, seen.cache_dtype) == (None, None, None, None)
    else:
        heads = config["decoder_attention_heads"]
        assert (seen.num_layers, seen.num_heads) == (config["decoder_layers"], heads)
        assert (seen.head_size, seen.cache_dtype) == (config["d_model"] // heads, "float32")
    assert (seen.width, seen.max_positions) == (config["d_model"], config["max_position_embeddings"])
    assert (seen.source_vocab_size, seen.target_vocab_size) == (config["vocab_size"], config["vocab_size"])
    assert seen.languages == ("deu", "fra")
    assert [graph.file for graph in seen.graphs] == sorted(GRAPHS[layout])


def test_every_input_and_output_is_listed_with_type_and_shape(folder):
    encoder = next(graph for graph in look(folder).graphs if graph.file == "encoder_model.onnx")
    width = read(folder / "config.json")["d_model"]

    assert {tensor.name: tensor.type for tensor in encoder.inputs} == {
        "input_ids": "tensor(int64)",
        "attention_mask": "tensor(int64)",
    }
    (hidden,) = encoder.outputs
    assert (hidden.name, hidden.type, hidden.shape[-1]) == ("last_hidden_state", "tensor(float)", width)


def test_graphs_that_the_layout_does_not_use_are_told_apart(folder):
    used = {graph.file: graph.is_used for graph in look(folder).graphs}

    assert used == {
        "decoder_model.onnx": False,
        "decoder_model_merged.onnx": True,
        "decoder_with_past_model.onnx": False,
        "encoder_model.onnx": True,
    }


def test_revision_and_sizes_are_those_of_the_files(folder):
    seen = look(folder)

    assert seen.revision == ModelFolder("tiny", folder).revision()
    assert {file.name: file.num_bytes for file in seen.files} == {
        file.name: file.stat().st_size for file in folder.iterdir()
    }


def test_a_description_is_json(folder):
    content = json.loads(json.dumps(look(folder).to_dict()))

    assert content["layout"] == "merged"
    assert content["graphs"][-1]["inputs"][0]["type"] == "tensor(int64)"


def test_a_graph_that_cannot_be_opened_says_why_and_the_others_are_shown(folder):
    damaged = folder / "decoder_model_merged.onnx"
    damaged.write_bytes(damaged.read_bytes()[:1000])

    seen = look(folder)

    problems = {graph.file: graph.problem for graph in seen.graphs}
    assert "decoder_model_merged.onnx" in (problems["decoder_model_merged.onnx"] or "")
    assert problems["encoder_model.onnx"] is None
    assert seen.problems == (problems["decoder_model_merged.onnx"],)
    assert seen.layout is None
    assert seen.languages == ("deu", "fra")


def test_a_damaged_graph_that_is_not_used_is_no_obstacle(folder):
    (folder / "decoder_with_past_model.onnx").write_bytes(b"not a graph")

    seen = look(folder)

    assert seen.problems == ()
    assert [graph.file for graph in seen.graphs if graph.problem] == ["decoder_with_past_model.onnx"]


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("config.json", {"decoder_layers": 9}, "decoder_layers = 9"),
        ("config.json", {"eos_token_id": 7}, "eos_token_id = 7"),
        ("generation_config.json", {"do_sample": True}, "do_sample"),
    ],
)
def test_settings_that_keep_a_model_from_running_are_problems(folder, name, changes, message):
    (folder / name).write_text(json.dumps(read(folder / name) | changes))

    (problem,) = look(folder).problems

    assert message in problem


@pytest.mark.parametrize("name", ["config.json", "encoder_model.onnx", "source.spm", "vocab.json"])
def test_a_missing_file_is_one_problem_and_the_rest_is_shown(folder, name):
    (folder / name).unlink()

    seen = look(folder)

    assert [problem.split(" is missing")[0] for problem in seen.problems] == [str(folder / name)]
    assert all(graph.inputs for graph in seen.graphs)


def test_a_folder_that_is_not_a_model_is_described_too(tmp_path):
    seen = look(tmp_path)

    assert len(seen.problems) == 1
    assert (seen.layout, seen.graphs, seen.files) == (None, (), ())
