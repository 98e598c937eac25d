"""Which provider answers which documents of a batch, and what is told of it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from jobs.answers import Answers, Unanswered
from jobs.errors import ModelError, NotFoundError, SpecError, Stopped
from jobs.outcome import Failed, Flag, Outcome, Ranking, StepTiming
from jobs.providers import NO_PROVIDER, ProviderOrder, Reason, Usage
from jobs.spec import JobSpec
from jobs.store.queue.batches import Batch, PlannedDocument
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.task import Task
from tests.rows import SPEC, translated
from worker.engine.runtime.run_context import RunContext
from worker.providers.circuit_breaker import FIRST_PAUSE_S, CircuitBreaker
from worker.providers.fallback import LONGEST_WAIT_S, Fallback
from worker.providers.protocol import ProviderFailure, ProviderJob

Process = Callable[[Batch], Sequence[Outcome | Unanswered]]
DOWN = ProviderFailure(Reason.UNREACHABLE, "connection refused")
TOO_LONG = Unanswered(Reason.DECLINED, "longer than the server's context")


def answers(batch: Batch) -> list[Outcome | Unanswered]:
    return [translated(document.text) for document in batch]


def raises(error: Exception) -> Process:
    def process(_: Batch) -> Sequence[Outcome | Unanswered]:
        raise error

    return process


def answers_until(limit: int, why: Unanswered) -> Process:
    """Answers the first `limit` documents that it gets."""
    return lambda batch: [*answers(batch[:limit]), *([why] * len(batch[limit:]))]


class Scripted:
    """Providers that do what a test says, a clock, and what they were asked."""

    def __init__(self, local: Sequence[str] = ("onnx",), **processes: Process) -> None:
        self.processes = processes
        self.asked: list[tuple[str, list[int]]] = []
        self.now = 0.0
        self._local = local
        self._breakers: dict[tuple[str, str, str], CircuitBreaker] = {}
        self.fallback = Fallback(self._breaker)

    def answer(self, spec: JobSpec, number: int = 4) -> Answers:
        batch = tuple(PlannedDocument(position, f"text {position}", 10) for position in range(number))
        return self.fallback.answer(1, spec, batch, self, RunContext())

    def is_local(self, name: str) -> bool:
        return name in self._local

    def provider(self, name: str) -> "Scripted":
        return self

    def open(self, job: ProviderJob) -> None:
        pass

    def process(self, job: ProviderJob, documents: Batch, run: RunContext) -> Answers:
        self.asked.append((job.choice.name, [document.position for document in documents]))
        outcomes = self.processes[job.choice.name](documents)
        timings = [StepTiming("request", 0, 1, 1, 0, 0.5) for _ in documents]
        return Answers(outcomes, timings=timings, usage=[Usage(job.choice.name, len(documents), 10, 5, 0.25)])

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def _breaker(self, key: tuple[str, str, str]) -> CircuitBreaker:
        return self._breakers.setdefault(key, CircuitBreaker(lambda: self.now))


def spec_of(order: str, *, fallback: bool = True) -> JobSpec:
    return replace(SPEC, providers=ProviderOrder.parse(order, fallback=fallback))


def told(answered: Answers) -> list[tuple[str, str | None, str, int, bool]]:
    return [(one.provider, one.next_provider, one.code, one.documents, one.is_change) for one in answered.handovers]


def test_the_first_provider_answers_alone_while_it_works() -> None:
    scripted = Scripted(onnx=answers, openai=answers)

    answered = scripted.answer(spec_of("onnx,openai"))

    assert scripted.asked == [("onnx", [0, 1, 2, 3])]
    assert answered.answered_by == ["onnx"] * 4
    assert told(answered) == []


def test_the_documents_that_are_left_go_to_the_next_provider_and_answers_stay() -> None:
    scripted = Scripted(openai=answers_until(1, Unanswered(Reason.TIMEOUT, "no answer within 60 s")), onnx=answers)

    answered = scripted.answer(spec_of("openai,onnx"))

    assert scripted.asked == [("openai", [0, 1, 2, 3]), ("onnx", [1, 2, 3])]
    assert answered.answered_by == ["openai", "onnx", "onnx", "onnx"]
    assert [one.text for one in answered.outcomes] == [translated(f"text {n}").text for n in range(4)]  # type: ignore[union-attr]
    assert told(answered) == [("openai", "onnx", "timeout", 3, True)]
    assert answered.usage == [Usage("openai", 4, 10, 5, 0.25), Usage("onnx", 3, 10, 5, 0.25)]
    assert len(answered.timings) == 7


def test_a_bad_document_fails_and_is_not_asked_elsewhere() -> None:
    bad = Failed("engine-error", "the text cannot be tokenized")
    scripted = Scripted(openai=lambda batch: [*answers(batch[:3]), bad], onnx=answers)

    answered = scripted.answer(spec_of("openai,onnx"))

    assert answered.outcomes[3] == bad
    assert answered.answered_by == ["openai"] * 4
    assert len(scripted.asked) == 1


def test_a_declined_document_goes_on_and_the_provider_stays_in_use() -> None:
    scripted = Scripted(openai=answers_until(3, TOO_LONG), onnx=answers)

    first, second = scripted.answer(spec_of("openai,onnx")), scripted.answer(spec_of("openai,onnx"))

    assert first.answered_by == second.answered_by == ["openai", "openai", "openai", "onnx"]
    assert told(first) == [("openai", "onnx", "declined", 1, False)]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DOWN, "unreachable"),
        (NotFoundError("there is no model x"), "no-model"),
        (ModelError("the weights are damaged"), "engine-error"),
        (SpecError("the model has no cache"), "engine-error"),
    ],
)
def test_a_provider_that_cannot_start_hands_over_the_whole_batch(error: Exception, code: str) -> None:
    scripted = Scripted(onnx=raises(error), openai=answers)

    answered = scripted.answer(spec_of("onnx,openai"))

    assert answered.answered_by == ["openai"] * 4
    assert told(answered) == [("onnx", "openai", code, 4, True)]


@pytest.mark.parametrize(
    ("error", "code"),
    [(ModelError("the weights are damaged"), "open-error"), (NotFoundError("there is no model x"), "no-model")],
)
def test_a_model_that_cannot_be_opened_is_told_apart_from_one_that_fails(error: Exception, code: str) -> None:
    class CannotOpen(Scripted):
        def open(self, job: ProviderJob) -> None:
            if job.choice.name == "onnx":
                raise error

    answered = CannotOpen(onnx=answers, openai=answers).answer(spec_of("onnx,openai"))

    assert told(answered) == [("onnx", "openai", code, 4, True)]


def test_a_dead_provider_is_not_asked_again_until_its_pause_is_over_and_then_for_one_document() -> None:
    scripted = Scripted(openai=raises(DOWN), onnx=answers)
    spec = spec_of("openai,onnx")

    batches = [scripted.answer(spec), scripted.answer(spec)]
    scripted.now += FIRST_PAUSE_S
    batches.append(scripted.answer(spec))
    scripted.now += 2 * FIRST_PAUSE_S
    scripted.processes["openai"] = answers
    batches.append(scripted.answer(spec))

    assert [positions for name, positions in scripted.asked if name == "openai"] == [[0, 1, 2, 3], [0], [0], [1, 2, 3]]
    assert [told(one) for one in batches] == [
        [("openai", "onnx", "unreachable", 4, True)],
        [("openai", "onnx", "not-asked", 4, False)],
        [("openai", "onnx", "unreachable", 4, False)],
        [("openai", None, "recovered", 0, True)],
    ]
    assert batches[3].answered_by == ["openai"] * 4


def test_where_no_provider_is_left_documents_fail_with_the_reason_of_each() -> None:
    order = ProviderOrder.parse("ollama,openai,onnx")
    choices = (replace(order.choices[0], skipped="it cannot score"), *order.choices[1:])
    scripted = Scripted(openai=raises(DOWN), onnx=raises(ModelError("the weights are damaged")))

    answered = scripted.answer(replace(SPEC, providers=replace(order, choices=choices)), number=2)

    message = "no provider answered; openai: connection refused; onnx: the weights are damaged; ollama: it cannot score"
    assert answered.outcomes == [Failed("unanswered", message)] * 2
    assert answered.answered_by == [NO_PROVIDER] * 2
    assert told(answered)[-1] == ("onnx", None, "engine-error", 2, True)


def test_the_last_provider_is_waited_for_before_more_documents_fail() -> None:
    scripted = Scripted(openai=raises(DOWN), ollama=raises(DOWN))
    spec = spec_of("ollama,openai")
    scripted.answer(spec)
    assert scripted.now == 0

    failed = scripted.answer(spec)
    assert scripted.now == pytest.approx(FIRST_PAUSE_S, abs=1.0)
    scripted.processes["openai"] = answers
    answered = scripted.answer(spec)

    assert [type(one) for one in failed.outcomes] == [Failed] * 4
    assert answered.answered_by == ["openai"] * 4
    assert scripted.now == pytest.approx(3 * FIRST_PAUSE_S, abs=2.0)


def test_the_wait_for_the_last_provider_is_bounded_and_begins_anew_after_an_answer() -> None:
    scripted = Scripted(openai=raises(DOWN))
    for _ in range(8):
        scripted.answer(spec_of("openai"))
    assert scripted.now == pytest.approx(LONGEST_WAIT_S, abs=1.0)

    scripted.processes["openai"] = answers
    scripted.now += 1_000.0
    scripted.answer(spec_of("openai"))
    scripted.processes["openai"] = raises(DOWN)
    before = scripted.now
    for _ in range(8):
        scripted.answer(spec_of("openai"))

    assert scripted.now - before == pytest.approx(LONGEST_WAIT_S, abs=1.0)


def test_nobody_waits_for_a_key_that_is_missing() -> None:
    scripted = Scripted(openai=raises(ProviderFailure(Reason.NO_ACCESS, "no key is set")))
    for _ in range(3):
        scripted.answer(spec_of("openai"))

    assert scripted.now == 0
    assert len(scripted.asked) == 1


def test_a_query_that_no_provider_ranks_keeps_the_order_of_its_candidates() -> None:
    payload = json.dumps(
        {"query": "rain", "candidates": [{"id": "b", "text": "Rain.", "score": 2.0}, {"id": "a", "text": "Sun."}]}
    )
    spec = replace(spec_of("openai"), task=Task.RERANK, options=RerankOptions())
    scripted = Scripted(openai=raises(DOWN))

    answered = scripted.fallback.answer(1, spec, (PlannedDocument(0, payload, 10),), scripted, RunContext())

    (ranking,) = answered.outcomes
    assert isinstance(ranking, Ranking)
    assert [(one.id, one.rank, one.score, one.first_score) for one in ranking.candidates] == [
        ("b", 1, None, 2.0),
        ("a", 2, None, None),
    ]
    assert ranking.flags == (Flag.KEPT_ORDER,)
    assert all("openai: connection refused" in str(one.error) for one in ranking.candidates)


def test_without_fallback_the_documents_of_the_first_provider_fail() -> None:
    scripted = Scripted(openai=raises(DOWN), onnx=answers)

    answered = scripted.answer(spec_of("openai,onnx", fallback=False))

    assert [type(one) for one in answered.outcomes] == [Failed] * 4
    assert [name for name, _ in scripted.asked] == ["openai"]


def test_the_error_of_a_single_local_provider_stops_the_job_for_a_person() -> None:
    scripted = Scripted(onnx=raises(ModelError("the weights are damaged")))

    for _ in range(2):
        with pytest.raises(ModelError, match="damaged"):
            scripted.answer(SPEC)


def test_a_request_to_stop_is_no_failure_of_the_provider() -> None:
    scripted = Scripted(openai=raises(Stopped("stopped")), onnx=answers)

    for _ in range(2):
        with pytest.raises(Stopped):
            scripted.answer(spec_of("openai,onnx"))
    assert [name for name, _ in scripted.asked] == ["openai", "openai"]


def test_another_job_learns_of_a_dead_provider_from_the_breaker_and_says_so_once() -> None:
    scripted = Scripted(openai=raises(DOWN), onnx=answers)
    spec = spec_of("openai,onnx")
    scripted.answer(spec)
    batch = (PlannedDocument(0, "text", 10),)

    first, second = (scripted.fallback.answer(2, spec, batch, scripted, RunContext()) for _ in range(2))

    assert told(first) == [("openai", "onnx", "not-asked", 1, True)]
    assert told(second) == [("openai", "onnx", "not-asked", 1, False)]
    assert "connection refused" in first.handovers[0].reason
