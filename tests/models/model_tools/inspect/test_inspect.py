"""`models inspect` of a model folder, sound or broken; the graphs are the tiny ones of the golden files."""

import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import sentencepiece

from tests.checkpoints import write_marian_checkpoint
from tests.messages import line_with
from tests.places import GOLDEN
from tests.split_models import split_kv_model
from worker.cli.models.inspect import describe
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.inspect.description import ModelDescription
from worker.model_tools.inspect.inspect import inspect_model
from worker.model_tools.inspect.stages import describe_stages
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder

TINY = GOLDEN / "tiny-swish-tied"
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
def folder(every_layout: Path) -> Path:
    """A model with a merged decoder, and a vocabulary with two labels."""
    keep_graphs(every_layout, GRAPHS["merged"])
    return every_layout


@pytest.fixture
def every_layout(tmp_path: Path, spm: bytes) -> Path:
    """The same folder with every graph of every layout; opening all takes 0.1 s."""
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
def test_a_model_that_runs_is_described_from_its_graphs(every_layout, layout):
    keep_graphs(every_layout, GRAPHS[layout])
    config = read(every_layout / "config.json")

    seen = look(every_layout)

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


def test_padding_that_kvjobs_forbids_against_the_settings_is_reported(folder):
    settings = read(folder / "generation_config.json")
    pad_id = read(folder / "config.json")["pad_token_id"]
    (folder / "generation_config.json").write_text(json.dumps(settings | {"bad_words_ids": [[pad_id]]}))
    assert look(folder).unlisted_pad_id is None

    (folder / "generation_config.json").write_text(json.dumps(settings | {"bad_words_ids": None}))

    assert look(folder).unlisted_pad_id == pad_id
    assert line_with("\n".join(describe(look(folder))), "padding ", f"id {pad_id} ", "never generated")


def test_every_input_and_output_is_listed_with_type_and_shape(folder):
    encoder = next(graph for graph in look(folder).graphs if graph.file == "encoder_model.onnx")
    width = read(folder / "config.json")["d_model"]

    assert {tensor.name: tensor.type for tensor in encoder.inputs} == {
        "input_ids": "tensor(int64)",
        "attention_mask": "tensor(int64)",
    }
    (hidden,) = encoder.outputs
    assert (hidden.name, hidden.type, hidden.shape[-1]) == ("last_hidden_state", "tensor(float)", width)


def test_graphs_that_the_layout_does_not_use_are_marked(every_layout):
    used = {graph.file: graph.is_used for graph in look(every_layout).graphs}

    assert used == {
        "decoder_model.onnx": False,
        "decoder_model_merged.onnx": True,
        "decoder_with_past_model.onnx": False,
        "encoder_model.onnx": True,
    }


def test_revision_and_sizes_equal_those_of_the_files(folder):
    seen = look(folder)

    assert seen.revision == ModelFolder("tiny", folder).revision()
    assert {file.name: file.num_bytes for file in seen.files} == {
        file.name: file.stat().st_size for file in folder.iterdir()
    }


def test_a_description_is_json(folder):
    content = json.loads(json.dumps(look(folder).to_dict()))

    assert content["layout"] == "merged"
    assert content["graphs"][-1]["inputs"][0]["type"] == "tensor(int64)"


def test_a_graph_that_cannot_be_opened_is_shown_with_the_reason_beside_the_others(folder):
    damaged = folder / "decoder_model_merged.onnx"
    damaged.write_bytes(damaged.read_bytes()[:1000])

    seen = look(folder)

    problems = {graph.file: graph.problem for graph in seen.graphs}
    assert "decoder_model_merged.onnx" in (problems["decoder_model_merged.onnx"] or "")
    assert problems["encoder_model.onnx"] is None
    assert seen.problems == (problems["decoder_model_merged.onnx"],)
    assert seen.layout is None
    assert seen.languages == ("deu", "fra")


def test_a_damaged_graph_that_is_not_used_is_not_a_problem(every_layout):
    (every_layout / "decoder_with_past_model.onnx").write_bytes(b"not a graph")

    seen = look(every_layout)

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


# --- graphs that cannot run


def change_graph(file: Path, change: Callable[[onnx.ModelProto], None]) -> None:
    model = onnx.load(file)
    change(model)
    onnx.save(model, file)


def fix_axes(model: onnx.ModelProto) -> None:
    """Fix all axes, as an exporter does without dynamic axes."""
    for axis, size in zip(model.graph.input[0].type.tensor_type.shape.dim, (1, 16), strict=True):
        axis.dim_value = size


def add_input(model: onnx.ModelProto) -> None:
    model.graph.input.append(onnx.helper.make_tensor_value_info("position_ids", onnx.TensorProto.INT64, ["B", "T"]))


def from_the_future(model: onnx.ModelProto) -> None:
    model.ir_version = 99


def with_newer_operators(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 99


def test_a_graph_with_fixed_axes_is_reported_with_how_to_export(folder):
    change_graph(folder / "encoder_model.onnx", fix_axes)

    (problem,) = look(folder).problems

    assert re.search(r"encoder_model.onnx takes input_ids as \[1, 16\], where batch and length cannot vary", problem)
    assert "optimum-cli export onnx" in problem


def test_an_unknown_input_is_named(folder):
    change_graph(folder / "decoder_model_merged.onnx", add_input)

    (problem,) = look(folder).problems

    assert re.search(r"decoder_model_merged.onnx requires the unknown input position_ids \['B', 'T'\]", problem)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (from_the_future, r"has ONNX IR version 99 and onnxruntime [\d.]+ reads up to \d+: upgrade"),
        (with_newer_operators, r"operator"),
    ],
)
def test_a_graph_that_is_too_new_is_still_described(folder, change, message):
    before = look(folder)
    change_graph(folder / "decoder_model_merged.onnx", change)

    seen = look(folder)

    assert len(seen.problems) == 1
    assert re.search(message, seen.problems[0])
    assert (seen.layout, seen.num_layers, seen.conclusion) == ("merged", before.num_layers, None)
    decoder = next(graph for graph in seen.graphs if graph.file == "decoder_model_merged.onnx")
    assert decoder.inputs == before.graphs[0].inputs
    assert decoder.outputs == before.graphs[0].outputs
    assert 99 in (decoder.ir_version, *decoder.opsets.values())


@pytest.mark.parametrize("layout", GRAPHS)
def test_the_layout_concluded_from_the_graphs_is_shown(every_layout, layout):
    keep_graphs(every_layout, GRAPHS[layout])

    conclusion = look(every_layout).conclusion or ""

    assert conclusion.startswith(f"an export with{'out' if layout == 'no cache' else ''} a KV cache")
    assert ("kvjobs models add" in conclusion) == (layout == "no cache")


def test_a_checkpoint_is_one_problem(tmp_path):
    (problem,) = look(write_marian_checkpoint(tmp_path / "checkpoint")).problems

    assert f"`kvjobs models add {tmp_path / 'checkpoint'}`" in problem


# --- native graphs


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("added")
    checkpoint = write_marian_checkpoint(folder / "checkpoint")
    request = Request(source=str(checkpoint), precision=Precision.INT8, name="native")
    return Path(add_model(request, folder / "models").path)


@pytest.fixture
def native(added: Path, tmp_path: Path) -> Path:
    """A copy of the added model that a test may damage."""
    return Path(shutil.copytree(added, tmp_path / "native"))


def test_a_native_model_is_described_from_its_graphs_and_its_manifest(native, added):
    seen = look(native)

    assert seen.problems == ()
    assert (seen.layout, seen.precision, seen.head) == ("kv", "int8", "target")
    assert (seen.num_layers, seen.num_heads, seen.head_size, seen.cache_dtype) == (2, 2, 8, "int8")
    assert (seen.width, seen.max_positions, seen.source_vocab_size, seen.target_vocab_size) == (16, 64, 72, 72)
    assert seen.num_target_ids == len(Manifest.read(native).head_ids or ())
    assert seen.source == str(added.parents[1] / "checkpoint")
    assert [(graph.file, graph.is_used, graph.producer) for graph in seen.graphs] == [
        ("decoder.onnx", True, "kvjobs"),
        ("encoder.onnx", True, "kvjobs"),
    ]
    assert all(graph.inputs and graph.outputs for graph in seen.graphs)
    assert json.loads(json.dumps(seen.to_dict()))["head"] == "target"


def test_the_stages_of_a_model_in_int8_cache_and_send_keys_and_values_of_one_byte(native, tmp_path):
    split = split_kv_model(native, tmp_path / "split", 3)

    encoder, *stages = describe_stages(split, Manifest.read(split))

    # Two layers of width 16; the residual between them is in float32.
    assert (encoder.cache_bytes, encoder.sent_bytes) == (0, 2 * 2 * 16)
    assert [(stage.cache_bytes, stage.sent_bytes) for stage in stages] == [(2 * 16, 4 * 16)] * 2


def test_files_that_differ_from_the_manifest_are_problems(native):
    weights = native / "weights.data"
    weights.write_bytes(bytes([weights.read_bytes()[0] ^ 1]) + weights.read_bytes()[1:])

    (problem,) = look(native).problems

    assert line_with(problem, "weights.data", "checksum", "kvjobs.json")


@pytest.mark.parametrize("name", ["decoder.onnx", "weights.data", "config.json", "target.spm"])
def test_a_missing_file_of_a_native_model_is_one_problem(native, name):
    (native / name).unlink()

    (problem,) = look(native).problems

    assert line_with(problem, f"{native / name} is missing", "`kvjobs models add")


def test_a_damaged_manifest_is_one_problem_and_files_are_listed(native):
    (native / "kvjobs.json").write_text("{")

    seen = look(native)

    assert line_with(seen.problems[0], "kvjobs.json", "JSON")
    assert "weights.data" in [file.name for file in seen.files]
