"""`kvjobs bench cache`: decoding with and without the cache is measured, and must give the same tokens."""

import shutil
from pathlib import Path

import pytest

from tests.checkpoints import write_marian_checkpoint
from tests.command_line import Kvjobs
from tests.messages import line_with
from tests.places import GOLDEN
from worker.cli.bench import cache as bench
from worker.engine.tasks import cache_report
from worker.model_tools.add.add import Request, add_model
from worker.text.translation.marian_tokenizer import MarianTokenizer

TINY = GOLDEN / "tiny-swish-tied"


class Letters:
    """A tokenizer for a vocabulary of a few dozen ids."""

    languages = frozenset({"fra", "deu"})

    def for_source(self, language: str) -> "Letters":
        return self

    def encode(self, text: str, language: str | None) -> list[int]:
        label = [] if language is None else [{"deu": 1, "fra": 2}[language]]
        return [*label, *(3 + ord(character) % 30 for character in text), 0]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny model with a cache, and a tokenizer that fits it."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    for name in ("config.json", "generation_config.json", "encoder_model.onnx", "decoder_model_merged.onnx"):
        shutil.copy(TINY / name, folder)
    monkeypatch.setattr(bench, "check_files", lambda _folder: None)
    monkeypatch.setattr(MarianTokenizer, "open", lambda _folder: Letters())
    return folder


def test_the_same_work_is_measured_both_ways(kvjobs: Kvjobs, model: Path) -> None:
    short = ("--source-tokens", 8, "--batch-size", 3, "--repeats", 1)

    result = kvjobs("bench", "cache", "--model", model, "--tokens", "3,6", *short, "--json")

    assert result.exit_code == 0
    assert [row["target_tokens"] for row in result.json] == [3, 6]
    for row in result.json:
        assert row["is_equal"]
        assert row["num_segments"] == row["batch_size"] == 3
        assert row["ratio"] == pytest.approx(row["off"]["seconds"] / row["on"]["seconds"])
    assert line_with(result.err, "tokens", "same")


def test_each_measurement_is_stored_with_every_step(kvjobs: Kvjobs, model: Path) -> None:
    short = ("--source-tokens", 8, "--batch-size", 3, "--repeats", 1)

    result = kvjobs("bench", "cache", "--model", model, "--tokens", "3,6", *short, "--json")

    stored = kvjobs("query", "--saved", "cache-reports", "--json").json
    steps = kvjobs("query", "select * from v_cache_report_steps order by report_id, step", "--json").json
    assert line_with(result.err, "Stored 2 ", "kvjobs ")
    assert [row["report_id"] for row in stored] == [row["report_id"] for row in reversed(result.json)]
    for row, measured in zip(reversed(stored), result.json, strict=True):
        assert (row["model"], row["num_different"], row["stages"]) == (str(model), 0, None)
        assert (row["target_tokens"], row["num_sequences"]) == (measured["target_tokens"], 3)
        assert (row["cached_s"], row["uncached_s"]) == (measured["on"]["seconds"], measured["off"]["seconds"])
        assert row["uncached_growth"] == pytest.approx(measured["off_growth"])
        of_report = [step for step in steps if step["report_id"] == row["report_id"]]
        assert [step["step"] for step in of_report] == list(range(measured["target_tokens"]))
        assert [step["cached_s"] for step in of_report] == measured["on"]["step_s"]
        assert [step["uncached_s"] for step in of_report] == measured["off"]["step_s"]


def test_without_a_database_the_measurement_is_printed_all_the_same(
    kvjobs: Kvjobs, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVJOBS_DATABASE", f"sqlite:///{tmp_path}")  # a folder

    result = kvjobs("bench", "cache", "--model", model, "--tokens", "3", "--source-tokens", 8, "--repeats", 1, "--json")

    assert result.exit_code == 0
    assert line_with(result.err, "not stored", "database")
    assert [row["report_id"] for row in result.json] == [None]


def test_a_model_that_changes_meanwhile_is_not_stored(
    kvjobs: Kvjobs, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cache_report.measure_cache

    def changing(*arguments: object, **options: object) -> cache_report.CacheReport:
        (model / "config.json").write_text((model / "config.json").read_text() + "\n")
        return whole(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(cache_report, "measure_cache", changing)

    result = kvjobs("bench", "cache", "--model", model, "--tokens", "3", "--source-tokens", 8, "--repeats", 1, "--json")

    assert line_with(result.err, "not stored", f"{model}", "changed")
    assert [row["report_id"] for row in result.json] == [None]


def test_a_model_with_native_graphs_is_measured_both_ways(kvjobs: Kvjobs, tmp_path: Path) -> None:
    checkpoint = write_marian_checkpoint(tmp_path / "checkpoint")
    folder = add_model(Request(source=str(checkpoint)), tmp_path / "models").path
    short = ("--source-tokens", 8, "--batch-size", 3, "--segments", 7, "--repeats", 1, "--beam-size", 2)

    result = kvjobs("bench", "cache", "--model", folder, "--tokens", "3,6", *short, "--json")

    assert result.exit_code == 0
    assert [row["is_equal"] for row in result.json] == [True, True]
    assert all(row["on_growth"] > 0 and row["off_growth"] > 0 for row in result.json)


def test_segments_have_the_requested_length() -> None:
    segments = bench._segments(Letters(), 8)  # type: ignore[arg-type]

    for _ in range(50):
        segment = next(segments)
        assert len(segment) == 8
        assert segment[0] == 1  # the label of the first target language
        assert segment.index(0) == 7  # the end token is the last


def test_different_tokens_are_a_failure(kvjobs: Kvjobs, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cache_report.measure_cache

    def differing(*arguments: object, **options: object) -> cache_report.CacheReport:
        import dataclasses

        return dataclasses.replace(whole(*arguments, **options), num_different=2)  # type: ignore[arg-type]

    monkeypatch.setattr(cache_report, "measure_cache", differing)

    result = kvjobs("bench", "cache", "--model", model, "--tokens", "3", "--source-tokens", "8", "--repeats", 1)

    assert result.exit_code == 1
    assert "2 segments " in result.err
    assert result.out.splitlines()[1].split()[-1] == "no"


@pytest.mark.parametrize(
    ("options", "exit_code"),
    [
        (("--tokens", "five"), 2),
        (("--tokens", "1"), 2),
        (("--model", "nobody"), 5),
    ],
)
def test_impossible_measurements_are_refused(
    kvjobs: Kvjobs, model: Path, options: tuple[str, ...], exit_code: int
) -> None:
    result = kvjobs("bench", "cache", "--model", model, *options)

    assert result.exit_code == exit_code
    assert "Error: " in result.err


def test_a_language_model_continues_prompts_both_ways(kvjobs: Kvjobs) -> None:
    short = ("--source-tokens", 8, "--batch-size", 3, "--repeats", 1, "--tokens", "3,6")

    result = kvjobs("bench", "cache", "--model", "demo-lm", *short, "--json")

    assert result.exit_code == 0
    assert [(row["target_tokens"], row["num_segments"], row["is_equal"]) for row in result.json] == [
        (3, 3, True),
        (6, 3, True),
    ]
    assert len(result.json[1]["on"]["step_s"]) == 6
    refused = kvjobs("bench", "cache", "--model", "demo-lm", "--beam-size", 4)
    assert refused.exit_code == 2
    assert line_with(refused.err, "no beams", "--beam-size")


def test_a_measurement_of_a_split_model_says_how_many_stages_it_has(kvjobs: Kvjobs) -> None:
    kvjobs("models", "split", "demo-lm", "--stages", 3)
    short = ("--source-tokens", 8, "--batch-size", 3, "--repeats", 1, "--tokens", "3", "--json")

    whole = kvjobs("bench", "cache", "--model", "demo-lm", *short)
    split = kvjobs("bench", "cache", "--model", "demo-lm-3-stages", *short)

    assert [whole.json[0]["stages"], split.json[0]["stages"]] == [None, 3]
    assert line_with(split.err, "demo-lm-3-stages", "3 stages", "3 prompts")
    assert [row["stages"] for row in kvjobs("query", "--saved", "cache-reports", "--json").json] == [3, None]
