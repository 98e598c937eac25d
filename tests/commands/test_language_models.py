"""`kvjobs models` of causal language models: add, ls, inspect, verify."""

import json
import sys
from pathlib import Path

import pytest

from tests.causal_checkpoints import write_causal_checkpoint
from tests.checkpoints import write_marian_checkpoint
from tests.command_line import Kvjobs
from tests.messages import line_with
from worker.model_tools.verify.numpy_causal import NumpyCausal
from worker.models import drift, registry


@pytest.fixture
def language_model(kvjobs: Kvjobs, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(registry, "BUNDLED", {})
    monkeypatch.setattr("worker.model_tools.verify.causal.open_causal_reference", NumpyCausal.open)
    return write_causal_checkpoint(home / "tiny-lm", "qwen2", max_positions=256)


def test_add_of_a_language_model_suggests_its_tasks(kvjobs: Kvjobs, language_model: Path) -> None:
    result = kvjobs("models", "add", language_model)

    assert result.exit_code == 0
    assert result.out.splitlines()[2:] == [
        "  kind       causal",
        "  layout     kv",
        "  precision  fp32",
        f"  source     {language_model}",
    ]
    assert result.err == "Next: kvjobs submit CORPUS --task score --model tiny-lm --wait\n"
    (model,) = kvjobs("models", "ls", "--json").json
    assert (model["name"], model["kind"], model["layout"], model["state"]) == ("tiny-lm", "causal", "kv", "complete")


def test_a_language_model_in_int8_is_listed_and_described_with_its_drift(kvjobs: Kvjobs, language_model: Path) -> None:
    added = kvjobs("models", "add", language_model, "--precision", "int8", "--json")

    measured = added.json["drift"]
    (listed,) = kvjobs("models", "ls", "--json").json
    assert measured["num_languages"] == 10
    assert (listed["drift"], listed["perplexity_change"]) == (measured["mean"], measured["perplexity_change"])
    assert kvjobs("models", "inspect", "tiny-lm-int8", "--json").json["drift"] == measured
    assert line_with(kvjobs("models", "inspect", "tiny-lm-int8").out, "drift ", "from fp32")


def test_a_list_of_80_columns_shows_the_drift_and_the_verdict(
    kvjobs: Kvjobs, language_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kvjobs("models", "add", language_model, "--precision", "int8", "--name", "smollm2-135m-instruct-2")
    kvjobs("models", "verify", "smollm2-135m-instruct-2", "--limit", "3")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")

    title, _, row = kvjobs("models", "ls").out.splitlines()

    assert {"KIND", "PRECISION", "SIZE", "DRIFT", "VERIFIED"} < set(title.split())
    assert row.split()[-1] == "measured"


def test_add_and_verify_warn_of_a_drift_above_the_bound_alone(
    kvjobs: Kvjobs, language_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift, "MAX_PERPLEXITY_CHANGE", 1.0)
    monkeypatch.setattr(drift, "MAX_MEAN", 10.0)
    near = kvjobs("models", "add", language_model, "--precision", "int8")
    near_verified = kvjobs("models", "verify", "tiny-lm-int8", "--limit", "3")
    monkeypatch.setattr(drift, "MAX_MEAN", 1e-6)

    far = kvjobs("models", "add", language_model, "--precision", "int8", "--force")
    far_verified = kvjobs("models", "verify", "tiny-lm-int8", "--limit", "3")

    assert "Warning" not in near.err + near_verified.err
    assert near.err.startswith("int8 drift on ")
    assert far.err.startswith("Warning: tiny-lm-int8 is far from fp32: int8 drift on ")
    assert "--precision fp32" in far.err
    assert line_with(far_verified.err, "Warning: tiny-lm-int8", "fp32", "perplexity ")
    assert far_verified.exit_code == 0


def test_add_of_a_language_model_with_the_head_option_exits_with_2(kvjobs: Kvjobs, language_model: Path) -> None:
    result = kvjobs("models", "add", language_model, "--head", "target")

    assert result.exit_code == 2
    assert line_with(result.err, "--head", "translation")


def test_inspect_of_a_language_model_shows_heads_and_special_tokens(kvjobs: Kvjobs, language_model: Path) -> None:
    kvjobs("models", "add", language_model)

    page = kvjobs("models", "inspect", "tiny-lm").out

    assert line_with(page, "kind ", "causal", "qwen2\n")
    assert line_with(page, "layout ", "kv: ", "native")
    assert line_with(page, "cache ", "2 layers", "2 heads", "size 16", "4 query heads", "float32\n")
    assert line_with(page, "positions ", "256 ")
    assert line_with(page, "vocabulary ", "300 tokens", "no BOS", "EOS", "id 0\n")
    assert line_with(page, "chat ", "no chat template")
    assert "sentence" not in page


def test_inspect_says_whether_a_model_has_a_chat_template(kvjobs: Kvjobs, language_model: Path) -> None:
    (language_model / "chat_template.jinja").write_text("{{ messages[0].content }}")
    kvjobs("models", "add", language_model)

    page = kvjobs("models", "inspect", "tiny-lm").out
    assert line_with(page, "chat ", "has a ", "--task generate --chat")
    assert json.loads(kvjobs("models", "inspect", "tiny-lm", "--json").out)["has_chat_template"] is True


def test_verify_of_a_language_model_compares_each_token(kvjobs: Kvjobs, language_model: Path) -> None:
    kvjobs("models", "add", language_model)

    result = kvjobs("models", "verify", "tiny-lm", "--limit", "3")

    rows = [line.split() for line in result.out.splitlines()]
    assert result.exit_code == 0, result.err
    assert rows[0][:5] == ["CHECK", "AGAINST", "VERDICT", "DOCUMENTS", "TOKENS"]
    assert [(row[0], "same" in row) for row in rows[1:]] == [("packed", True), ("cache", True), ("checkpoint", True)]
    assert rows[1][-1] == "%"
    assert result.err == "tiny-lm: 3 documents ...\n"


def test_verify_of_a_language_model_takes_documents_from_a_corpus(
    kvjobs: Kvjobs, language_model: Path, tmp_path: Path
) -> None:
    kvjobs("models", "add", language_model, "--precision", "int8")
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("Rain in the hills.\nSnow on the plain.\nRain in the hills.\nx\n")

    packed, _, _, precision = kvjobs("models", "verify", "tiny-lm-int8", "--sample", corpus, "--json").json

    assert packed["num_segments"] == 4  # two documents, both in one, and one of the maximum length
    assert precision["verdict"] == "measured"
    assert 0 < precision["drift"] < 1
    assert "chrf" not in precision


def test_verify_with_a_corpus_without_a_token_to_score_exits_with_2(
    kvjobs: Kvjobs, language_model: Path, tmp_path: Path
) -> None:
    kvjobs("models", "add", language_model)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("x\n\n")

    result = kvjobs("models", "verify", "tiny-lm", "--sample", corpus)

    assert result.exit_code == 2
    assert line_with(result.err, "no document", "token")


def test_models_of_two_kinds_cannot_be_compared(kvjobs: Kvjobs, language_model: Path, home: Path) -> None:
    kvjobs("models", "add", language_model)
    kvjobs("models", "add", write_marian_checkpoint(home / "opus-tiny"))

    result = kvjobs("models", "verify", "tiny-lm", "--against", "opus-tiny")

    assert result.exit_code == 2
    assert line_with(result.err, "tiny-lm ", "causal", "opus-tiny ", "translation")
    assert kvjobs("models", "verify", "tiny-lm", "--target-language", "fra").exit_code == 2
