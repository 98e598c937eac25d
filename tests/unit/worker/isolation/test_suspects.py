"""The search for the document that kills its process, with scripted sandboxes in place of processes."""

from typing import Any

import pytest

from jobs.answers import Answers
from jobs.errors import ModelError, Stopped
from jobs.outcome import Quarantined, Translation
from jobs.store.queue.batches import Batch, PlannedDocument
from tests.messages import line_with
from tests.rows import SPEC
from tests.scripted_sandboxes import SEGFAULT, Sandboxes, ScriptedSandbox, poison
from worker.engine.runtime.run_context import RunContext
from worker.isolation.sandbox import SandboxDied
from worker.isolation.suspects import MAX_LOADS, TRIED_ALONE, SuspectsLane
from worker.providers.protocol import ProviderJob


def batch_of(count: int) -> Batch:
    return tuple(PlannedDocument(position, f"text {position}", 10) for position in range(count))


def search(open_sandbox: Any, on_death: Any, count: int, advice: str = "") -> Answers:
    job = ProviderJob(SPEC, SPEC.providers.choices[0])
    in_process: Any = None  # never asked
    return SuspectsLane(in_process, open_sandbox, on_death, advice).process(job, batch_of(count), RunContext())


def run(sandboxes: Sandboxes, count: int = 6) -> list[Any]:
    outcomes = search(sandboxes, sandboxes.on_death, count, "what to do").outcomes
    assert sandboxes.open == 0, "every process was closed"
    return outcomes


def test_a_batch_that_kills_no_process_runs_once_as_a_whole() -> None:
    sandboxes = poison()

    outcomes = run(sandboxes)

    assert sandboxes.tried == [[0, 1, 2, 3, 4, 5]]
    assert sandboxes.deaths == []
    assert [outcome.text for outcome in outcomes] == [f"text {position}" for position in range(6)]


def test_one_poison_document_costs_three_processes_and_is_quarantined_alone() -> None:
    sandboxes = poison(2)

    outcomes = run(sandboxes)

    assert sandboxes.deaths == [[0, 1, 2, 3, 4, 5], [2], [2]]
    assert sandboxes.tried[1:] == [[0], [1], [2], [3], [4], [5], [2]]
    assert sandboxes.opened == 4, "a new process after each death, and no more"
    assert outcomes[2] == Quarantined(
        "killed", "each of two processes that worked on this document alone was killed by SIGSEGV"
    )
    assert [type(outcome) for outcome in outcomes].count(Translation) == 5


def test_a_document_that_kills_only_one_sandbox_keeps_its_result() -> None:
    sandboxes = Sandboxes(
        lambda positions, times: SEGFAULT if len(positions) > 1 or (positions == [3] and times == 1) else None
    )

    assert all(isinstance(outcome, Translation) for outcome in run(sandboxes))


def test_the_second_attempt_runs_in_a_fresh_process() -> None:
    opened: list[int] = []

    def kills(positions: list[int], times: int) -> SandboxDied | None:
        opened.append(sandboxes.opened)
        return SEGFAULT if len(positions) > 1 or positions in ([1], [2]) else None

    sandboxes = Sandboxes(kills)

    outcomes = run(sandboxes)

    assert opened[-1] != opened[-2], "documents 1 and 2 are tried again in a fresh process each"
    assert opened[-2] != opened[-3]
    assert [isinstance(outcome, Quarantined) for outcome in outcomes] == [False, True, True, False, False, False]


def test_two_deaths_of_different_kinds_are_both_in_the_message() -> None:
    hung = SandboxDied("hung", "gave no sign of life for 3 s")
    sandboxes = Sandboxes(lambda positions, times: (hung if times == 2 else SEGFAULT) if 1 in positions else None)

    (outcome,) = [outcome for outcome in run(sandboxes) if isinstance(outcome, Quarantined)]

    assert outcome.code == "hung"
    assert line_with(outcome.message, "SIGSEGV", "no sign")


def test_a_model_that_always_kills_is_not_blamed_on_the_documents() -> None:
    sandboxes = poison(*range(6))

    with pytest.raises(ModelError, match=r"6 documents.*SIGSEGV.*not the documents"):
        run(sandboxes)
    assert len(sandboxes.deaths) == 1 + TRIED_ALONE
    assert sandboxes.open == 0


def test_three_poison_documents_in_a_row_are_not_blamed_on_the_model() -> None:
    outcomes = run(poison(0, 1, 2))

    assert [isinstance(outcome, Quarantined) for outcome in outcomes] == [True] * 3 + [False] * 3


def test_neighbouring_poison_documents_are_not_blamed_on_the_model() -> None:
    outcomes = run(poison(*range(TRIED_ALONE)), 3 * TRIED_ALONE)

    quarantined = [isinstance(outcome, Quarantined) for outcome in outcomes]
    assert quarantined == [True] * TRIED_ALONE + [False] * 2 * TRIED_ALONE


def test_a_model_that_dies_while_it_loads_is_not_blamed_on_the_documents() -> None:
    deaths: list[Batch] = []

    def open_sandbox(_job: ProviderJob) -> ScriptedSandbox:
        raise SEGFAULT

    with pytest.raises(ModelError, match=r"loads the model .*SIGSEGV"):
        search(open_sandbox, lambda batch, _: deaths.append(batch), 2)
    assert deaths == [()] * MAX_LOADS


def test_an_error_of_the_engine_is_raised_and_leaves_no_process_behind() -> None:
    class Stopping(Sandboxes):
        def process(self, batch: Batch) -> Answers:
            raise Stopped("as asked")

    sandboxes = Stopping(lambda *_: None)

    with pytest.raises(Stopped):
        search(sandboxes, sandboxes.on_death, 2)
    assert (sandboxes.opened, sandboxes.open) == (1, 0)
