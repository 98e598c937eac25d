"""Providers tried on a sample: onnx with the bundled models, and scripted ones whose answers differ as a test says."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest

from jobs.answers import Answers, Unanswered
from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.documents import Document
from jobs.outcome import Outcome, Score, Translation
from jobs.providers import ProviderOrder, Reason, Usage
from jobs.settings import Settings
from jobs.spec import JobSpec
from jobs.store.queue.batches import Batch, batch_limits
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.kinds import KINDS, Options
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.model_tools.admission import admit
from worker.model_tools.provider_trial import ProviderTrial, try_providers
from worker.providers import registry
from worker.providers.available.onnx import OnnxProvider
from worker.providers.protocol import ProviderFailure, ProviderJob, WarmModel

TEXTS = ["It will rain in Arden.", "Snow in Kelso on Friday.", "Fog in the morning.", "It will be dry in Selby."] * 3


class Differing(OnnxProvider):
    """Answers as onnx does, then changed."""

    name: ClassVar[str] = "differing"
    is_local: ClassVar[bool] = False
    change: ClassVar[Callable[[Outcome], Outcome | Unanswered]]

    def new_lane(self) -> Any:
        return _DifferingLane(super().new_lane())

    def warm(self) -> Mapping[str, WarmModel]:
        return {}


class _DifferingLane:
    def __init__(self, lane: Any) -> None:
        self._lane = lane

    def open(self, job: ProviderJob) -> None:
        self._lane.open(job)

    def process(self, job: ProviderJob, documents: Batch, run: RunContext) -> Answers:
        answer = self._lane.process(job, documents, run)
        outcomes = [Differing.change(outcome) for outcome in answer.outcomes]
        return Answers(outcomes, usage=[Usage("differing", len(documents), 10 * len(documents), 0, 0.5)])

    def batches_at_once(self, job: ProviderJob) -> int:
        return 1

    def changed_files(self) -> list[str]:
        return []

    @property
    def buffer_stats(self) -> BufferStats:
        return BufferStats()


class Dead:
    """Cannot be opened."""

    name: ClassVar[str] = "dead"
    is_local: ClassVar[bool] = False

    @classmethod
    def start(cls, arguments: WorkerArguments) -> Self:
        raise ProviderFailure(Reason.UNREACHABLE, "connection refused")


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkerArguments:
    classes = {"onnx": OnnxProvider, "differing": Differing, "dead": Dead, "recording": Recording}
    monkeypatch.setattr(registry, "provider_class", classes.__getitem__)
    return WorkerArguments(Settings(home=tmp_path, models_dir=tmp_path / "models", lanes=2))


def trials(spec: JobSpec, arguments: WorkerArguments) -> list[ProviderTrial]:
    documents = [
        Document(position, str(position), False, position + 1, text, None, 10) for position, text in enumerate(TEXTS)
    ]
    return list(
        try_providers(replace(spec, providers=ProviderOrder.parse("onnx,dead,differing")), documents, arguments)
    )


def test_scores_are_compared_per_token_and_a_provider_that_cannot_start_says_why(arguments: WorkerArguments) -> None:
    def shifted(outcome: Outcome) -> Outcome:
        assert isinstance(outcome, Score)
        return replace(outcome, nll_sum=outcome.nll_sum + 0.25 * outcome.num_tokens)

    Differing.change = staticmethod(shifted)
    spec = admit(Task.SCORE, "demo-lm", arguments.settings.models_dir, ScoreOptions(reuse=False))

    onnx, dead, differing = trials(spec, arguments)

    assert (onnx.documents, onnx.same, onnx.agreement) == (len(TEXTS), None, None)
    assert (dead.why_not, dead.documents) == ("connection refused", 0)
    assert differing.documents == len(TEXTS)
    assert differing.difference == pytest.approx(0.25)
    assert differing.same == 0
    assert differing.perplexity is not None
    assert onnx.perplexity is not None
    assert differing.perplexity / onnx.perplexity == pytest.approx(1.2840254)  # e ** 0.25
    assert differing.usage is not None
    assert (differing.usage.requests, differing.usage.prompt_tokens) == (len(TEXTS), 10 * len(TEXTS))


def test_translations_are_compared_as_texts_and_unanswered_documents_are_counted(arguments: WorkerArguments) -> None:
    def one_in_four(outcome: Outcome) -> Outcome | Unanswered:
        assert isinstance(outcome, Translation)
        return Unanswered(Reason.DECLINED, "too long") if "雾" in outcome.text else outcome

    Differing.change = staticmethod(one_in_four)
    spec = admit(Task.TRANSLATE, "demo-en-zh", arguments.settings.models_dir, TranslateOptions(reuse=False))

    _, _, differing = trials(spec, arguments)

    assert (differing.documents, differing.unanswered, differing.reason) == (9, 3, "too long")
    assert (differing.same, differing.difference) == (1.0, 0.0)


class Recording(Differing):
    """Notes how many documents each batch has, and answers none."""

    name: ClassVar[str] = "recording"
    batches: ClassVar[list[int]]

    def new_lane(self) -> Any:
        return _RecordingLane(None)


class _RecordingLane(_DifferingLane):
    def open(self, job: ProviderJob) -> None:
        pass

    def process(self, job: ProviderJob, documents: Batch, run: RunContext) -> Answers:
        Recording.batches.append(len(documents))
        return Answers([Unanswered(Reason.DECLINED, "it only takes notes")] * len(documents))


@pytest.mark.parametrize(
    ("task", "options", "tokens_each", "num_documents"),
    [
        (Task.TRANSLATE, TranslateOptions(), 500, 8),
        (Task.SCORE, ScoreOptions(), 500, 8),
        (Task.RERANK, RerankOptions(), 500, 32),
        (Task.GENERATE, GenerateOptions(), 500, 65),
        (Task.SCORE, ScoreOptions(), 10, 256),
        (Task.GENERATE, GenerateOptions(), 100, 128),
    ],
)
def test_a_large_sample_is_cut_into_the_batches_of_a_lease(
    arguments: WorkerArguments, task: Task, options: Options, tokens_each: int, num_documents: int
) -> None:
    limits = batch_limits(KINDS[task])
    assert num_documents == min(limits.tokens // tokens_each, limits.documents)
    spec = JobSpec(
        task=task, model="any", model_revision="", options=options, providers=ProviderOrder.parse("recording")
    )
    sample = [Document(number, str(number), False, number + 1, "text", None, tokens_each) for number in range(5000)]
    Recording.batches = []

    (trial,) = try_providers(spec, sample, arguments)

    assert (trial.why_not, trial.unanswered) == (None, len(sample))
    assert max(Recording.batches) == num_documents
    assert sum(Recording.batches) == len(sample)
