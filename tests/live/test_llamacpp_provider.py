"""The provider llamacpp, with GGUF files in the worker's process."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_cpp")

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.errors import ModelError
from jobs.outcome import Score
from jobs.providers import Choice, ProviderOrder
from jobs.settings import Settings
from jobs.spec import JobSpec
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.rows import batch_of
from worker.engine.causal.llamacpp import library
from worker.engine.causal.open import open_causal_model
from worker.engine.runtime.run_context import RunContext
from worker.model_tools.admission import admit
from worker.models.registry import find_model
from worker.providers.available.llamacpp import LlamaCppProvider
from worker.providers.protocol import ProviderJob
from worker.providers.registry import provider_names

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("default")]


def arguments(gguf_models: Path, **settings: Any) -> WorkerArguments:
    return WorkerArguments(Settings(home=gguf_models.parent, models_dir=gguf_models, **settings))


def job(gguf_models: Path, model: str, choice: Choice, task: Task = Task.SCORE) -> ProviderJob:
    options = ScoreOptions() if task is Task.SCORE else RerankOptions()
    spec = JobSpec(
        task=task,
        model=model,
        model_revision=find_model(model, gguf_models).revision(),
        options=options,
        providers=ProviderOrder((choice,)),
    )
    return ProviderJob(spec, choice)


def test_the_provider_answers_with_the_jobs_model_or_its_counterpart(gguf_models: Path) -> None:
    provider = LlamaCppProvider.start(arguments(gguf_models))
    lane = provider.new_lane()
    counterpart = Choice("llamacpp", "llama-q8_0", find_model("llama-q8_0", gguf_models).revision())
    own, other = job(gguf_models, "llama-f32", Choice("llamacpp")), job(gguf_models, "llama", counterpart)

    assert "llamacpp" in provider_names()
    for each in (own, other):
        assert provider.why_not(each) is None
        lane.open(each)
        (outcome,) = lane.process(each, batch_of(["the snow"]), RunContext()).outcomes
        assert isinstance(outcome, Score)
    assert {model.name for model in provider.warm().values()} == {"llama-f32", "llama-q8_0"}
    assert lane.buffer_stats.num_bytes > 0
    assert lane.changed_files() == []


def test_the_provider_says_what_it_cannot_do(gguf_models: Path) -> None:
    provider = LlamaCppProvider.start(arguments(gguf_models))

    why = provider.why_not(job(gguf_models, "llama", Choice("llamacpp")))

    assert why is not None
    assert why.startswith("it runs GGUF files, and llama is none: `kvjobs models add FILE.gguf --keep-gguf`")


def test_doctor_hears_whether_the_library_is_there(gguf_models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = LlamaCppProvider.start(arguments(gguf_models))

    there = provider.check()
    monkeypatch.setattr("worker.providers.available.llamacpp.is_installed", lambda package: False)
    missing = provider.check()

    assert (there.found.split()[0], there.mend) == ("llama-cpp-python", "")
    assert missing.mend.startswith("pip install 'llama-cpp-python")


def test_a_setting_bounds_the_context(gguf_models: Path) -> None:
    provider = LlamaCppProvider.start(arguments(gguf_models, llamacpp_context=8))
    lane, own = provider.new_lane(), job(gguf_models, "llama-f32", Choice("llamacpp"))

    lane.open(own)
    (outcome,) = lane.process(own, batch_of(["the snow in the rain in the snow"]), RunContext()).outcomes

    assert isinstance(outcome, Score)
    assert open_causal_model(gguf_models / "llama-f32", context=8).max_positions == 8


def test_without_the_library_a_model_cannot_be_opened(gguf_models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = job(gguf_models, "llama-f32", Choice("llamacpp"))
    library.llama_cpp.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "llama_cpp", None)

    with pytest.raises(ModelError, match=r"package is not installed: pip install 'llama-cpp-python"):
        LlamaCppProvider.start(arguments(gguf_models)).new_lane().open(own)

    monkeypatch.undo()
    library.llama_cpp.cache_clear()


def test_submit_checks_the_options_of_a_gguf_model(gguf_models: Path) -> None:
    spec = admit(Task.SCORE, "llama-q4_0", gguf_models, ScoreOptions(max_length=64, stride=16))

    assert spec.model_revision == find_model("llama-q4_0", gguf_models).revision()
    with pytest.raises(Exception, match="max_length is 4096, but the model takes at most 128 tokens"):
        admit(Task.SCORE, "llama-q4_0", gguf_models, ScoreOptions(max_length=4096))
