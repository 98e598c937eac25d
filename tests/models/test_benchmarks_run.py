"""The benchmarks that name parts of the worker still find them."""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bench import bare_engine
from bench.harness.prompts import bulletin_prompts
from bench.peers import generate_ours, ours
from bench.queue import INSTANT
from jobs.outcome import Translation
from jobs.spec import JobSpec
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.rows import batch_of
from tests.seq2seq_checkpoints import FAMILIES
from worker import providers
from worker.engine.runtime.run_context import RunContext
from worker.models.registry import BUNDLED, DEFAULT_CAUSAL
from worker.providers.local_engines import LocalEngines
from worker.providers.protocol import ProviderJob
from worker.warm_models import WarmModels


def loaded(spec: ModuleSpec | None) -> Any:
    """A module of its own, beside the one that others may have imported."""
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def instant(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the instant bench puts into a worker, whose finder is gone again after the test."""
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    return loaded(importlib.util.spec_from_file_location("instant", INSTANT / "sitecustomize.py"))


def test_the_bare_engine_translates_a_corpus_and_prints_its_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": 1, "text": "Fog in the morning."}\n', encoding="utf-8")
    monkeypatch.setenv("KVJOBS_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "argv", ["bare_engine", str(corpus)])

    bare_engine.main()

    assert float(capsys.readouterr().out) > 0


def test_the_instant_engine_takes_the_place_of_the_one_that_a_lane_uses(instant: Any, tmp_path: Path) -> None:
    assert LocalEngines.__module__ == instant.MODULE
    assert LocalEngines.of_translation.__qualname__ == instant.REPLACED
    spec = JobSpec(task=Task.TRANSLATE, model="no-such-model", model_revision="0" * 64, options=TranslateOptions())

    replaced = loaded(sys.meta_path[0].find_spec(instant.MODULE, providers.__path__))
    engines = replaced.LocalEngines(WarmModels(tmp_path, threads=1))
    job = ProviderJob(spec, spec.providers.choices[0])
    (outcome,) = engines.process(job, batch_of(["Rain."]), RunContext()).outcomes

    assert isinstance(outcome, Translation)
    assert outcome.text == "Rain."


def test_our_side_of_the_generate_bench_gives_each_prompt_what_it_gets_alone(tmp_path: Path) -> None:
    folder = BUNDLED[DEFAULT_CAUSAL]
    (tmp_path / "ours-fp32").symlink_to(folder)  # made already
    prompts = bulletin_prompts(folder, 20, 30)
    model = generate_ours.prepare(folder, tmp_path, "fp32")
    alone = [ids for prompt in prompts for ids in generate_ours.generate(model, [prompt], 5)]

    generate_ours.tune(model, prompts, 2)

    assert generate_ours.generate(model, prompts, 5) == alone
    assert {len(ids) for ids in alone} == {5}
    assert str(model.setting.batch_size) in generate_ours.configuration(model)


def test_our_side_of_the_families_bench_gives_each_source_as_many_tokens_as_are_asked_for(tmp_path: Path) -> None:
    checkpoint = FAMILIES["t5"](tmp_path / "checkpoint")
    sources = [[9, 8, 7, 1], [6, 1], [5, 6, 9, 1]]

    found = ours.run(ours.prepare(checkpoint, tmp_path, "fp32"), sources, beams=1, forced_length=7)

    assert [len(ids) for ids in found] == [7, 7, 7]
