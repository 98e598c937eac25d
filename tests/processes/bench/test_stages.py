"""The benchmark of split models, on a tiny random one."""

import json
from pathlib import Path

import pytest

from bench import stages
from bench.harness.stages import stage_memory
from worker.models.registry import BUNDLED, DEFAULT_CAUSAL

MIB = 1 << 20


def test_every_part_measures_the_split_model_beside_the_whole_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "in_own_process", lambda function, *given: function(*given))  # but for the memory
    monkeypatch.setattr(stages, "_TWENTIETHS", (19,))
    tiny = ("--shape", "qwen-tiny", "--stages", "2,all", "--precision", "fp32", "--rows", "2", "--tokens", "4")

    stages.main([*tiny, "--rounds", "1", "--work", str(tmp_path), "--json"])

    rows = json.loads(capsys.readouterr().out)
    equality, memory, seconds = ([row for row in rows if row["part"] == part] for part in stages.PARTS)
    assert [(row["stages"], row["separate"]) for row in equality] == [(2, False), (2, True)]
    for row in equality:
        assert {*row["log_probs"].values(), row["ids_log_probs"]} == {0.0}
        assert {*row["ids"].values()} == {1.0}
    assert [row["name"] for row in memory[:4]] == ["process", "process", "stage 0", "stage 1"]
    assert all(row["is_equal"] for row in memory[:4])
    assert {(row["model"], row["phase"]) for row in seconds} == {
        (model, phase) for model in ("whole", "in one process", "separate") for phase in ("prefill", "decode")
    }
    for row in seconds:
        assert len(row["by_stage"]) == (0 if row["model"] == "whole" else 2)
        assert sum(row["computing"]) < row["seconds"]


def test_a_process_that_may_not_allocate_enough_says_so() -> None:
    found = stage_memory.use(BUNDLED[DEFAULT_CAUSAL], [[1, 2, 3]], limit=8 * MIB)

    assert found.processes == ()
    assert found.error is not None
    assert found.error.startswith("out of memory: ")
