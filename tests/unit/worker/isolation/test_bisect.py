from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.answers import Answers
from jobs.errors import ModelError, Stopped
from jobs.outcome import Failed, StepTiming, Translation
from jobs.store.queue.batches import Batch, PlannedDocument
from tests.rows import SPEC
from worker.engine.runtime.run_context import RunContext
from worker.isolation.bisect import MODEL_AT_FAULT, BisectingLane
from worker.providers.protocol import ProviderJob

JOB = ProviderJob(SPEC, SPEC.providers.choices[0])


def batch(size: int) -> Batch:
    return tuple(PlannedDocument(i, f"text {i}", 1) for i in range(size))


class EngineLane:
    """Translates each document to its own text, and raises if a poison document is in the batch."""

    def __init__(self, poison: set[int]) -> None:
        self.poison = poison
        self.calls = 0

    def process(self, job: Any, documents: Batch, run: Any) -> Answers:
        self.calls += 1
        if bad := [d.position for d in documents if d.position in self.poison]:
            raise RuntimeError(f"cannot process {bad}")
        return Answers(
            outcomes=[Translation(d.text, 0.0, 1, 0, 1, 1) for d in documents],
            learned={d.text.encode(): None for d in documents},  # type: ignore[misc]
            timings=[StepTiming("decode", 0, len(documents), 1, 0, 0.0)],
        )


def bisected(lane: EngineLane, documents: Batch) -> Answers:
    return BisectingLane(lane).process(JOB, documents, RunContext())  # type: ignore[arg-type]


@given(st.integers(1, 40), st.data())
def test_only_the_poison_documents_fail(size: int, data: st.DataObject) -> None:
    poison = data.draw(st.sets(st.integers(0, size - 1), max_size=min(size - 1, MODEL_AT_FAULT - 1)))

    result = bisected(EngineLane(poison), batch(size))

    assert [isinstance(outcome, Failed) for outcome in result.outcomes] == [i in poison for i in range(size)]
    assert [o.text for o in result.outcomes if isinstance(o, Translation)] == [
        f"text {i}" for i in range(size) if i not in poison
    ]
    assert len(result.learned) == size - len(poison)


def test_one_poison_document_costs_few_calls() -> None:
    engine = EngineLane({100})

    bisected(engine, batch(256))

    assert engine.calls == 1 + 2 * 8  # a halving of 256


def test_an_engine_that_fails_on_every_document_is_a_bad_model_not_bad_documents() -> None:
    with pytest.raises(ModelError, match="not the documents"):
        bisected(EngineLane(set(range(MODEL_AT_FAULT))), batch(MODEL_AT_FAULT))


def test_one_poison_document_alone_in_its_batch_fails_and_not_the_model() -> None:
    (outcome,) = bisected(EngineLane({0}), batch(1)).outcomes

    assert isinstance(outcome, Failed)
    assert outcome.code == "engine-error"
    assert "RuntimeError: cannot process" in outcome.message


def test_a_request_to_stop_fails_no_document() -> None:
    class StoppedLane(EngineLane):
        def process(self, _job: Any, documents: Batch, _run: Any) -> Answers:
            raise Stopped("now")

    with pytest.raises(Stopped):
        bisected(StoppedLane(set()), batch(4))
