"""Stages in processes of their own: the same results, within a memory limit, and clear failures."""

import json
import logging
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jobs.errors import ModelError, StageDied
from tests.causal_checkpoints import write_causal_checkpoint, write_kv_model
from tests.checkpoints import write_marian_checkpoint
from tests.split_models import split_kv_model
from tests.tiny_models import decode
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.native.separate_stages import SeparateStages
from worker.engine.causal.protocol import Group, LogProbs, read_all
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.continuation_rules import ContinuationRules
from worker.engine.seq2seq.batches import IdPair
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.stages.stage_process import StageProcess
from worker.model_tools.add.add import Request, add_model

VOCAB_SIZE = 300
MIB = 1 << 20


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    checkpoint = write_causal_checkpoint(folder / "checkpoint", "qwen2", layers=3, vocab_size=VOCAB_SIZE)
    return write_kv_model(checkpoint, folder / "kv")


@pytest.fixture
def split(whole: Path, tmp_path: Path) -> NativeCausal:
    return NativeCausal.open(split_kv_model(whole, tmp_path / "split", 3, separate=True))


def groups() -> list[Group]:
    """Long and short sequences, alone and behind a prefix."""
    rng = np.random.default_rng(3)

    def draw(length: int) -> list[int]:
        return [int(one) for one in rng.integers(0, VOCAB_SIZE, length)]

    return [Group([], [draw(100), draw(3)]), Group(draw(60), [draw(length) for length in (1, 2, 30, 30)])]


def read(model: NativeCausal) -> list[list[LogProbs]]:
    return read_all(model.new_reader(), groups(), RunContext())


def pids_of(model: NativeCausal) -> list[int]:
    parts = model.graphs._parts
    assert isinstance(parts, SeparateStages)
    return parts.processes.pids


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_results_are_those_of_the_whole_model(whole: Path, split: NativeCausal) -> None:
    model = NativeCausal.open(whole)
    for found, wanted in zip(read(split), read(model), strict=True):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    rules, prompts = ContinuationRules(max_new_tokens=9), [group.suffixes[0] for group in groups()]
    found_ids, wanted_ids = (
        sorted(
            pair for some in one.new_generator().generate(prompts, rules, RunContext(), batch_size=8) for pair in some
        )
        for one in (split, model)
    )
    assert found_ids == wanted_ids


def test_lanes_that_share_the_processes_do_not_share_keys_and_values(split: NativeCausal) -> None:
    wanted = read(split)
    found: list[dict[int, list[LogProbs]]] = [{}, {}]

    # A call of the one, a call of the other.
    for pairs in zip(*(split.new_reader().read(groups(), RunContext()) for _ in found), strict=True):
        for lane, (index, arrays) in zip(found, pairs, strict=True):
            lane[index] = arrays

    for lane in found:
        for index, arrays in lane.items():
            for one, other in zip(arrays, wanted[index], strict=True):
                np.testing.assert_array_equal(one, other)


def test_lanes_run_in_the_stages_side_by_side(split: NativeCausal) -> None:
    """Threads, as in a worker: while one is in a stage, another may be in the next."""
    wanted = read(split)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: [read(split) for _ in range(4)], range(3)))

    for lane in found:
        for again in lane:
            for one, other in zip(again, wanted, strict=True):
                for array, expected in zip(one, other, strict=True):
                    np.testing.assert_array_equal(array, expected)


def test_a_stage_that_is_killed_fails_the_batch_and_the_model_says_so(split: NativeCausal) -> None:
    reader = split.new_reader()
    read_all(reader, groups(), RunContext())
    assert split.is_running
    os.kill(pids_of(split)[1], signal.SIGKILL)

    with pytest.raises(StageDied, match=r"stage 1 .*split .*SIGKILL"):
        read_all(reader, groups(), RunContext())

    assert not split.is_running
    with pytest.raises(StageDied):  # also for a lane that begins now: its keys and values would be incomplete
        read(split)


def test_the_processes_end_with_the_model(split: NativeCausal) -> None:
    read(split)
    pids = pids_of(split)
    assert all(map(is_there, pids))

    parts = split.graphs._parts
    assert isinstance(parts, SeparateStages)
    parts.processes._processes.clear()

    wait_until(lambda: not any(map(is_there, pids)))


def test_a_stage_that_does_not_fit_into_its_limit_is_a_clear_failure(whole: Path, tmp_path: Path) -> None:
    model = NativeCausal.open(split_kv_model(whole, tmp_path / "split", 2, separate=True, memory_limit=8 * MIB))

    with pytest.raises(ModelError, match=r"stage \d .*split .*8\.00 MiB .*--memory"):
        read(model)


class _Aborting:
    """Aborts the process that reads it, as C++ does where memory runs out while it handles an error."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return os.abort, ()

    def open(self) -> None: ...


def test_a_stage_that_aborts_within_its_limit_did_not_fit() -> None:
    with pytest.raises(ModelError, match=r"stage 0 .*8\.00 MiB .*--memory"):
        StageProcess("stage 0", _Aborting(), memory_limit=8 * MIB)

    with pytest.raises(StageDied, match=r"stage 0 .*SIGABRT"):
        StageProcess("stage 0", _Aborting(), memory_limit=None)


def test_what_a_stage_raises_comes_back_and_the_process_goes_on(split: NativeCausal) -> None:
    reader = split.new_reader()
    with pytest.raises(Exception, match=r"(?i)out of.*range|indices"):
        read_all(reader, [Group([], [[VOCAB_SIZE + 5, 1, 2]])], RunContext())

    read_all(reader, groups(), RunContext())
    assert split.is_running


def test_translations_and_their_scores_are_those_of_the_whole_model(tmp_path: Path) -> None:
    checkpoint = write_marian_checkpoint(tmp_path / "checkpoint")
    folder = Path(add_model(Request(source=str(checkpoint), name="whole"), tmp_path / "models").path)
    models = [
        NativeSeq2Seq.open(split_kv_model(folder, tmp_path / "split", 3, separate=True)),
        NativeSeq2Seq.open(folder),
    ]
    sources = [[5, 6, 7, 0], [8, 9, 0], [10, 11, 12, 13, 14, 0], [15, 0]]

    for beams, cache in ((1, "auto"), (3, "auto"), (1, "off"), (2, "hybrid:2")):
        rules = replace(models[0].generation, num_beams=beams)
        found, wanted = (decode(model, sources, rules, rows=2, cache=cache) for model in models)
        assert found == wanted, (beams, cache)
    pairs = [IdPair(tuple(ids), tuple(ids)) for ids in sorted(sources, key=len, reverse=True)]
    scored, expected = (model.new_scorer().log_probs(pairs, RunContext()) for model in models)
    for one, other in zip(scored, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert models[0].is_running


class _Warning:
    """Logs in the process that reads it, which finds nothing to open then."""

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return logging.warning, ("8 rows\ndo not fit into memory",)

    def open(self) -> None: ...


def test_where_this_process_logs_json_a_stage_does_too(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("worker.engine.stages.stage_process.is_json_log", lambda: True)

    with pytest.raises(AttributeError):
        StageProcess("stage 0", _Warning(), memory_limit=None)

    (line,) = (json.loads(line) for line in capfd.readouterr().err.splitlines())
    assert (line["level"], line["message"]) == ("warning", "8 rows\ndo not fit into memory")
