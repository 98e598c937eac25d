"""`kvjobs models`: the list, the inspection, the addition and the verification of models."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.checkpoints.gguf_file import write_gguf
from tests.causal_checkpoints import write_causal_checkpoint
from tests.checkpoints import write_marian_checkpoint
from tests.command_line import Kvjobs
from tests.cross_encoder_checkpoints import write_cross_encoder_checkpoint
from tests.messages import line_with
from worker.cli.models.inspect import describe
from worker.model_tools.add import gguf_files
from worker.model_tools.inspect.description import ModelDescription
from worker.model_tools.verify.numpy_cross_encoder import NumpyCrossEncoder
from worker.model_tools.verify.numpy_seq2seq import NumpySeq2Seq
from worker.models import drift, registry


@pytest.fixture
def half_a_model(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model folder that contains only a configuration; there is no bundled model."""
    monkeypatch.setattr(registry, "BUNDLED", {})
    folder = home / "models" / "half"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"vocab_size": 7}')
    return folder


def test_ls_lists_model_folders_with_what_they_lack(kvjobs: Kvjobs, half_a_model: Path) -> None:
    (model,) = kvjobs("models", "ls", "--json").json

    assert (model["name"], model["state"], model["size"], model["path"]) == (
        "half",
        "incomplete",
        17,
        str(half_a_model),
    )
    assert "encoder" in model["problem"]
    assert kvjobs("models", "ls", "-q").out == "half\n"
    assert kvjobs("models", "ls").out.splitlines()[1].split() == [
        "half",
        "translation",
        "-",
        "-",
        "17",
        "bytes",
        "incomplete",
        "-",
        "-",
        "-",
        str(half_a_model),
    ]


def test_ls_without_models_is_an_empty_list(kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "BUNDLED", {})

    assert kvjobs("models", "ls", "--json").out == "[]\n"
    assert "no model" in kvjobs("models", "ls").err


def test_inspect_says_why_a_model_cannot_run(kvjobs: Kvjobs, half_a_model: Path) -> None:
    result = kvjobs("models", "inspect", "half")

    assert result.exit_code == 1
    assert result.out.startswith("Model half: cannot run\n  PROBLEM ")
    assert kvjobs("models", "inspect", half_a_model, "--json").json["problems"]


def test_an_unknown_model_exits_with_5(kvjobs: Kvjobs, half_a_model: Path) -> None:
    result = kvjobs("models", "inspect", "hlaf")

    assert result.exit_code == 5
    assert "half?" in result.err


def test_inspect_shows_the_layout_and_every_graph(kvjobs: Kvjobs, checkpoint: Path) -> None:
    kvjobs("models", "add", checkpoint, "--precision", "int8")

    page = kvjobs("models", "inspect", "opus-tiny-int8").out

    assert page.startswith("Model opus-tiny-int8: can run\n")
    assert line_with(page, "source ", f"{checkpoint}\n")
    assert line_with(page, "verified ", "never", "kvjobs models verify")
    assert line_with(page, "kind ", "translation\n")
    assert line_with(page, "layout ", "kv: ", "native")
    assert line_with(page, "precision ", "int8\n")
    assert line_with(page, "cache ", "2 layers", "2 heads", "size 8", "int8\n")
    assert line_with(page, "72 source tokens", "72 target tokens", "generates ")
    assert line_with(page, "\ndecoder.onnx\n  IR version 10", "ai.onnx 21", "com.microsoft 1", "kvjobs\n")
    assert line_with(page, "input ", "past.0.key: tensor(int8)", "[R, 2, C, 8]\n")


def test_only_some_of_many_languages_are_shown() -> None:
    nothing = {field.name: None for field in dataclasses.fields(ModelDescription)}
    languages = tuple(f"l{number:02}" for number in range(30))
    shown: dict[str, Any] = {"name": "many", "languages": languages, "graphs": (), "files": (), "problems": ()}
    shown["warnings"] = ()

    assert "l19 and 10 more" in "\n".join(describe(ModelDescription(**nothing | shown)))


@pytest.fixture
def checkpoint(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(registry, "BUNDLED", {})
    return write_marian_checkpoint(home / "opus-tiny")


def test_add_reports_the_model_and_its_folder(kvjobs: Kvjobs, checkpoint: Path, home: Path) -> None:
    result = kvjobs("models", "add", checkpoint, "--precision", "int8")

    folder = home / "models" / "opus-tiny-int8"
    lines = result.out.splitlines()
    assert result.exit_code == 0
    assert lines[0].startswith("Model opus-tiny-int8, added in ")
    assert lines[1].startswith(f"  folder     {folder}, ")
    assert lines[2:5] == ["  kind       translation", "  layout     kv", "  precision  int8"]
    assert lines[5].startswith("  head       target, ")
    assert lines[6] == f"  source     {checkpoint}"
    assert result.err.splitlines() == [
        "int8 drift was not measured: the graphs in fp32 translate the sample with tokens that the head in int8 lacks. "
        "To measure it on your own text: kvjobs models verify opus-tiny-int8 --sample CORPUS",
        "Next: kvjobs submit CORPUS --model opus-tiny-int8 --wait",
    ]
    assert folder.is_dir()


def test_an_added_model_is_listed_with_its_layout_and_precision(kvjobs: Kvjobs, checkpoint: Path) -> None:
    added = kvjobs("models", "add", checkpoint, "--name", "mine", "--head", "target", "--json").json

    (model,) = kvjobs("models", "ls", "--json").json
    assert (model["name"], model["layout"], model["precision"], model["state"]) == ("mine", "kv", "fp32", "complete")
    assert (added["name"], added["head"], added["path"]) == ("mine", "target", model["path"])


def test_add_under_a_taken_name_exits_with_2_and_force_replaces_the_model(kvjobs: Kvjobs, checkpoint: Path) -> None:
    kvjobs("models", "add", checkpoint)

    assert kvjobs("models", "add", checkpoint).exit_code == 2
    assert kvjobs("models", "add", checkpoint, "--force").exit_code == 0


def test_add_of_an_unknown_source_exits_with_5(kvjobs: Kvjobs, home: Path) -> None:
    assert kvjobs("models", "add", "./nothing").exit_code == 5


@pytest.fixture
def added(kvjobs: Kvjobs, checkpoint: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("worker.model_tools.verify.seq2seq.open_seq2seq_reference", NumpySeq2Seq.open)
    kvjobs("models", "add", checkpoint)
    return home / "models" / "opus-tiny"


def test_verify_reports_what_was_compared_with_what(kvjobs: Kvjobs, added: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("Rain in the hills.\nSnow on the plain.\nWind over the sea.\n")

    result = kvjobs("models", "verify", "opus-tiny", "--sample", tmp_path / "corpus.txt", "--limit", "2")

    rows = [line.split() for line in result.out.splitlines()]
    assert result.exit_code == 0
    assert rows[1] == ["slots", "each", "segment", "alone", "same", "2", "100.0", "%", "100.0", "%", "-", rows[1][-1]]
    assert rows[2][:6] == ["checkpoint", "checkpoint,", "in", "numpy", "same", "2"]
    assert result.err == "opus-tiny: 2 segments ...\n"


def test_a_verification_stays_known_until_the_model_changes(kvjobs: Kvjobs, added: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("Fog in the morning.\n")
    assert kvjobs("models", "ls", "--json").json[0]["verified"] is None

    kvjobs("models", "verify", "opus-tiny", "--sample", tmp_path / "corpus.txt", "--json")

    (listed,) = kvjobs("models", "ls", "--json").json
    inspected = kvjobs("models", "inspect", "opus-tiny", "--json").json["verification"]
    assert (listed["verified"], listed["verdict"]) == ("same as its checkpoint", inspected["verdict"])
    assert inspected["is_current"]
    assert line_with(kvjobs("models", "inspect", "opus-tiny").out, "same", "checkpoint: ")

    config = added / "config.json"
    config.write_text(config.read_text() + "\n")
    (changed,) = kvjobs("models", "ls", "--json").json
    assert (changed["verified"], changed["verdict"]) == ("not verified since it changed", None)


def test_a_verification_that_cannot_be_stored_is_printed_all_the_same(
    kvjobs: Kvjobs, added: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "corpus.txt").write_text("Fog in the morning.\n")
    monkeypatch.setenv("KVJOBS_DATABASE", f"sqlite:///{tmp_path}")  # a folder

    result = kvjobs("models", "verify", "opus-tiny", "--sample", tmp_path / "corpus.txt", "--json")

    assert result.exit_code == 0
    assert "not stored" in result.err
    assert len(result.json) == 2


def test_verify_takes_its_sentences_from_a_corpus(kvjobs: Kvjobs, added: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(
        '{"id": 1, "text": "Rain in the hills. Snow!\\n- 42 -"}\n{"id": 2, "text": "Rain in the hills."}\n'
    )

    slots, _ = kvjobs("models", "verify", "opus-tiny", "--sample", corpus, "--json").json

    assert (slots["name"], slots["verdict"], slots["num_segments"]) == ("slots", "same", 2)


def test_verify_with_a_corpus_without_a_sentence_exits_with_2(kvjobs: Kvjobs, added: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("42\n--\n")

    result = kvjobs("models", "verify", "opus-tiny", "--sample", corpus)

    assert result.exit_code == 2
    assert "no sentence" in result.err


def test_verify_of_a_wrong_model_exits_with_1(kvjobs: Kvjobs, added: Path) -> None:
    weights = np.fromfile(added / "weights.data", np.float32)
    (weights * 1.1).tofile(added / "weights.data")

    result = kvjobs("models", "verify", "opus-tiny", "--limit", "5")

    assert result.exit_code == 1
    assert (
        "Error: checkpoint: the model's results differ from those of the reference (checkpoint, in numpy)" in result.err
    )


def test_add_says_how_many_bits_a_quantized_file_had_and_what_int8_costs_on_top(
    kvjobs: Kvjobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift, "MAX_PERPLEXITY_CHANGE", 1.0)
    monkeypatch.setattr(drift, "MAX_MEAN", 10.0)
    monkeypatch.setattr(gguf_files, "try_tokenizer", lambda folder: None)  # in another process
    checkpoint = write_causal_checkpoint(tmp_path / "tiny", "llama", ffn=64)
    for precision in ("f16", "q4_0"):
        write_gguf(checkpoint, tmp_path / f"{precision}.gguf", precision, pre="gpt-2")

    whole, exact, int8 = (
        kvjobs("models", "add", tmp_path / name, *options)
        for name, *options in (["f16.gguf"], ["q4_0.gguf"], ["q4_0.gguf", "--precision", "int8"])
    )

    bits = kvjobs("models", "add", tmp_path / "q4_0.gguf", "--force", "--json").json["bits_per_weight"]
    assert 4.5 < bits < 5
    assert "bits" not in whole.err
    assert f"{bits:.1f} bits" in exact.err
    assert f"{bits:.1f} bits" in int8.err
    assert "perplexity" not in exact.err
    assert int8.err.count("perplexity") == 1


@pytest.mark.parametrize(
    ("write", "options", "figure"),
    [
        (write_marian_checkpoint, ["--head", "full"], "perplexity "),
        (lambda folder: write_cross_encoder_checkpoint(folder, "bert"), [], "on 4 pairs: a score by "),
    ],
)
def test_verify_warns_of_other_kinds_of_models_above_their_bound_alone(
    kvjobs: Kvjobs, home: Path, monkeypatch: pytest.MonkeyPatch, write: Any, options: list[str], figure: str
) -> None:
    monkeypatch.setattr("worker.model_tools.verify.seq2seq.open_seq2seq_reference", NumpySeq2Seq.open)
    monkeypatch.setattr("worker.model_tools.verify.cross_encoder.open_cross_encoder_reference", NumpyCrossEncoder.open)
    kvjobs("models", "add", write(home / "tiny"), "--precision", "int8", *options)
    verified = []
    for bound in (1e3, 1e-6):
        for name in ("MAX_PERPLEXITY_CHANGE", "MAX_MEAN", "MAX_SCORE_MEAN"):
            monkeypatch.setattr(drift, name, bound)
        verified.append(kvjobs("models", "verify", "tiny-int8", "--limit", "3"))

    near, far = verified
    assert "Warning" not in near.err
    assert line_with(far.err, "Warning: tiny-int8", "fp32", figure)
    assert (near.exit_code, far.exit_code) == (0, 0)
