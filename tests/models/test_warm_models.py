"""The engines of a lane run every task with models that stay open; each engine is opened once."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import ModelError, Stopped
from jobs.outcome import Ranking, Score, Translation
from jobs.providers import Choice
from jobs.routing.plan import PivotRequest
from jobs.settings import Settings
from jobs.spec import JobSpec
from jobs.store.queue.batches import MAX_BATCHES_AT_ONCE
from jobs.tasks.kinds import Options
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.shared_options import CachePolicy
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.causal_checkpoints import write_causal_checkpoint
from tests.checkpoints import write_marian_checkpoint
from tests.rows import batch_of
from worker.engine.runtime.run_context import RunContext, memory_key, never
from worker.engine.tasks.scoring import Scorer
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.admission import admit
from worker.model_tools.route_admission import admit_routes
from worker.providers import local_engines
from worker.providers.local_engines import LocalEngines
from worker.providers.protocol import ProviderJob
from worker.warm_models import WarmModels

TEXT = "It will rain in Arden."
PAIR = json.dumps({"source": "It will rain in Arden.", "target": "雅顿将有雨。"})

QUERY = json.dumps({"query": "hello", "candidates": [{"id": "a", "text": "hello world"}, {"id": "b", "text": "word"}]})


@pytest.fixture(scope="module")
def models_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A models folder with a tiny causal model."""
    folder = tmp_path_factory.mktemp("models")
    checkpoint = write_causal_checkpoint(tmp_path_factory.mktemp("checkpoint"), "qwen2")
    add_model(Request(source=str(checkpoint), name="tiny"), folder)
    return folder


CASES = [
    (Task.TRANSLATE, "demo-en-zh", TranslateOptions(), "It will rain in Arden.", Translation),
    (Task.SCORE, "demo-en-zh", ScoreOptions(), PAIR, Score),
    (Task.SCORE, "tiny", ScoreOptions(), "hello world", Score),
    (Task.RERANK, "tiny", RerankOptions(), QUERY, Ranking),
]


def job_of(spec: JobSpec) -> ProviderJob:
    return ProviderJob(spec, spec.providers.choices[0])


def run(engines: LocalEngines, spec: JobSpec, text: str, should_stop: Callable[[], bool] = never) -> Any:
    (outcome,) = engines.process(job_of(spec), batch_of([text]), RunContext(should_stop=should_stop)).outcomes
    return outcome


def test_a_fast_model_is_given_several_batches_at_once_unless_results_could_depend_on_the_batch(
    models_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_engines, "BATCH_S", 1e6)
    engines = LocalEngines(WarmModels(models_dir, threads=1))
    cached = admit(Task.TRANSLATE, "demo-en-zh", models_dir, TranslateOptions(reuse=False))
    uncached = admit(Task.TRANSLATE, "demo-en-zh", models_dir, TranslateOptions(cache=CachePolicy.parse("off")))
    scoring = admit(Task.SCORE, "demo-en-zh", models_dir, ScoreOptions())

    for spec, text in ((cached, TEXT), (uncached, TEXT), (scoring, PAIR)):
        run(engines, spec, text)

    jobs = map(job_of, (cached, uncached, scoring))
    assert [engines.batches_at_once(job) for job in jobs] == [MAX_BATCHES_AT_ONCE, 1, 1]


def test_one_lane_runs_every_task_and_opens_each_engine_once(models_dir: Path) -> None:
    models = WarmModels(models_dir, threads=1)
    engines = LocalEngines(models)
    specs = [admit(task, model, models_dir, options) for task, model, options, *_ in CASES]

    first = [run(engines, spec, text) for spec, (*_, text, _kind) in zip(specs, CASES, strict=True)]
    buffers = engines.buffer_stats
    again = [run(engines, spec, text) for spec, (*_, text, _kind) in zip(specs, CASES, strict=True)]

    assert [type(outcome) for outcome in first] == [kind for *_, kind in CASES]
    assert first == again
    assert sorted(name for name, _ in models.load_times().values()) == ["demo-en-zh", "tiny"]
    assert buffers.num_bytes > 0
    assert buffers.allocations > 0
    assert engines.buffer_stats.reuses > buffers.reuses


def test_results_are_remembered_under_the_digest_of_the_job_and_each_call_has_its_own_timings(models_dir: Path) -> None:
    engines, run = LocalEngines(WarmModels(models_dir, threads=1)), RunContext()
    spec = admit(Task.SCORE, "tiny", models_dir, ScoreOptions())
    job, other = job_of(spec), ProviderJob(spec, Choice("llamacpp", "tiny", spec.model_revision))

    first, again, of_other = (engines.process(asked, batch_of(["hello world"]), run) for asked in (job, job, other))

    assert list(first.learned) == list(again.learned) == [memory_key(job.memory_digest(), "hello world")]
    assert list(of_other.learned) == [memory_key(other.memory_digest(), "hello world")] != list(first.learned)
    assert len(first.timings) == len(again.timings) > 0


@pytest.mark.parametrize("case", CASES[1:], ids=["pairs", "texts", "queries"])
def test_every_engine_obeys_a_request_to_stop(models_dir: Path, case: tuple[Task, str, Options, str, type]) -> None:
    task, model, options, text, _ = case
    engines = LocalEngines(WarmModels(models_dir, threads=1))

    with pytest.raises(Stopped):
        run(engines, admit(task, model, models_dir, options), text, lambda: True)


def test_a_job_is_refused_if_its_model_is_now_of_another_kind(models_dir: Path) -> None:
    spec = admit(Task.SCORE, "tiny", models_dir, ScoreOptions())
    pairs = JobSpec(task=Task.SCORE, model="tiny", model_revision=spec.model_revision, options=ScoreOptions(pairs=True))

    with pytest.raises(ModelError, match="not a translation"):
        run(LocalEngines(WarmModels(models_dir, threads=1)), pairs, PAIR)


def test_touched_files_are_opened_again_and_the_job_continues(models_dir: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(models_dir / "tiny", tmp_path / "tiny"))
    engines = LocalEngines(WarmModels(tmp_path, threads=1))
    spec = admit(Task.SCORE, str(folder), tmp_path, ScoreOptions())
    first = run(engines, spec, "hello world")
    opened = engines.of_causal(spec, Scorer)
    assert engines.changed_files() == []

    weights = folder / "weights.data"
    weights.write_bytes(weights.read_bytes())

    assert engines.changed_files() == ["weights.data"]
    assert run(engines, spec, "hello world") == first
    assert engines.of_causal(spec, Scorer) is not opened
    assert engines.changed_files() == []


def test_changed_files_are_refused_even_if_the_model_is_already_open(models_dir: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(models_dir / "tiny", tmp_path / "tiny"))
    models = WarmModels(tmp_path, threads=1)
    engines = LocalEngines(models)
    spec = admit(Task.SCORE, str(folder), tmp_path, ScoreOptions())
    run(engines, spec, "hello world")

    weights = folder / "weights.data"
    weights.write_bytes(weights.read_bytes()[::-1])

    with pytest.raises(ModelError, match="have changed"):
        engines.open(job_of(spec))
    assert spec.model_revision not in models.load_times()


@pytest.fixture
def pivot(models_dir: Path, tmp_path: Path) -> tuple[Path, JobSpec]:
    """A models folder, and a job that translates through English with a tiny model and the bundled one."""
    shutil.copytree(models_dir, tmp_path / "models")
    settings = Settings(home=tmp_path, models_dir=tmp_path / "models")
    checkpoint = write_marian_checkpoint(tmp_path / "tiny-fr-en")
    add_model(Request(source=str(checkpoint), name=checkpoint.name), settings.models_dir)
    request = PivotRequest(model="tiny-fr-en", via=None, via_model="demo-en-zh", source=None, target=None)
    options = TranslateOptions(beam_size=1, max_new_tokens=4)
    return settings.models_dir, admit_routes([request.plan({})], None, options, None, settings, fallback=True)


def test_a_lane_keeps_both_models_of_a_job_open_and_sees_when_either_changes(pivot: tuple[Path, JobSpec]) -> None:
    folder, spec = pivot
    models = WarmModels(folder, threads=1)
    engines = LocalEngines(models)

    engines.open(job_of(spec))
    result = run(engines, spec, "rain in the hills")

    assert isinstance(result, Translation)
    assert result.via is not None
    assert [name for name, _ in models.load_times().values()] == ["tiny-fr-en", "demo-en-zh"]
    opened = [models.open(leg) for leg in spec.legs]
    run(engines, spec, "snow on the plain")
    assert [models.open(leg) for leg in spec.legs] == opened, "neither was loaded again"
    assert engines.changed_files() == []
    (folder / "tiny-fr-en" / "config.json").write_text((folder / "tiny-fr-en" / "config.json").read_text() + " ")
    assert engines.changed_files() == ["config.json"]
    with pytest.raises(ModelError, match=r"tiny-fr-en .*changed"):
        run(engines, spec, "rain")


def test_a_worker_keeps_as_many_models_open_as_the_settings_say(pivot: tuple[Path, JobSpec]) -> None:
    folder, spec = pivot
    models = WarmModels(folder, threads=1, limit=1)
    engines = LocalEngines(models)

    assert isinstance(run(engines, spec, "rain in the hills"), Translation)
    assert [name for name, _ in models.load_times().values()] == ["demo-en-zh"]
