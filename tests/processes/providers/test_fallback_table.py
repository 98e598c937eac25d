"""The fallback table of docs/providers.md: every provider fails in every way, and no document is lost or counted
twice."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.cli.render.job_end import end_message
from jobs.store.database import Database
from jobs.store.report.job_providers import providers_of
from jobs.store.report.job_summary import find_job
from jobs.tasks.task import Task
from tests.command_line import Kvjobs
from tests.databases import without_fsync
from tests.fallback_table.fault import DOCUMENTS, Fault, from_the_4th
from tests.fallback_table.openai_faults import WELL
from tests.fallback_table.page import COMMAND, FAULTS, PAGE, cells_of, row, rows_of
from tests.fallback_table.trial import KEY, Recorded, try_out, write_models
from tests.messages import line_with
from tests.openai_stand_in import OpenAIStandIn
from tests.scripted_api import hangs_up

TryOut = Callable[[Fault], Recorded]
DIES = Fault(
    what="dies at the 4th document",
    code="unreachable",
    answered="openai 3, onnx 5",
    server=[from_the_4th(WELL, hangs_up)],
)


@pytest.fixture(scope="module")
def own_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def jobs_of_all(empty_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """One database for the jobs of all tests: its compiled statements are kept."""
    path = tmp_path_factory.mktemp("fallback") / "kvjobs.db"
    shutil.copy(empty_database, path)
    database = without_fsync(Database.open(f"sqlite:///{path}"))
    yield database
    database.close()


@pytest.fixture
def tried(jobs_of_all: Database, own_models: Path, tmp_path: Path) -> TryOut:
    return lambda fault: try_out(fault, tmp_path, jobs_of_all, own_models)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_what_fails_is_on_record_and_each_document_ends_once(fault: Fault, tried: TryOut, tmp_path: Path) -> None:
    found = tried(fault)

    assert (found.state, found.contradictions) == ("done", [])
    assert found.answered == fault.expected
    assert {name: number for name, number in found.counted.items() if number} == {
        name: number for name, number in found.answered.items() if name != "none"
    }
    assert sum(found.answered.values()) + len(found.failed) == DOCUMENTS
    assert KEY not in repr(found)
    line = row(fault, found, tmp_path)
    assert cells_of(line)[3].replace("`", "") == fault.code
    assert line in rows_of(PAGE.read_text(encoding="utf-8")), f"run: {COMMAND}"


def test_the_page_has_a_row_for_each_fault() -> None:
    listed = [cells_of(line)[:3] for line in rows_of(PAGE.read_text(encoding="utf-8"))]

    assert listed == [[fault.provider, fault.what, fault.job] for fault in FAULTS], f"run: {COMMAND}"


def test_a_provider_that_comes_back_is_asked_again_and_both_moments_are_on_record(tried: TryOut) -> None:
    fault = next(fault for fault in FAULTS if fault.what.startswith("fails once"))

    assert tried(fault).changes == [("openai", "onnx", "server-error", 2), ("openai", None, "recovered", 0)]


def test_a_bad_document_is_not_asked_elsewhere(tried: TryOut) -> None:
    found = tried(next(fault for fault in FAULTS if fault.code == "refused"))

    assert (found.handed_over, found.changes) == ({}, [])
    assert found.failed == [("refused", "the chat model refuses to translate it: I cannot help with that.")]


def test_a_query_is_ranked_by_one_provider_alone(tried: TryOut) -> None:
    """A server that cannot score one candidate of a query gives no part of its ranking."""
    fault = Fault(what="", code="", task=Task.RERANK, server=[OpenAIStandIn(refuses="dry in Kelso", reranks=False)])
    by_onnx = tried(replace(fault, order="onnx"))
    mixed = tried(replace(fault, server=[OpenAIStandIn(refuses="in Orford", reranks=False)]))

    assert tried(fault).answered == {"onnx": DOCUMENTS}
    assert mixed.answered == {"openai": DOCUMENTS - 1, "onnx": 1}
    for alone, both in zip(by_onnx.results, mixed.results, strict=True):
        assert (scores_of(both) == pytest.approx(scores_of(alone), abs=1e-4)) is (both.provider == "onnx")


def scores_of(ranking: Any) -> dict[str, float]:
    return {one["id"]: one["score"] for one in json.loads(ranking.candidates)}


def test_where_all_fail_a_document_has_the_reason_of_each_and_a_query_keeps_its_order(tried: TryOut) -> None:
    failing = [fault for fault in FAULTS if fault.what == "no provider is left"]
    by_task = {fault.task: tried(fault) for fault in failing}

    for task in (Task.SCORE, Task.TRANSLATE):
        assert len(by_task[task].failed) == DOCUMENTS
        for code, message in by_task[task].failed:
            assert code == "unanswered"
            assert line_with(message, "onnx: ", "no model")
            assert "; openai: 127.0.0.1:" in message
    for ranking in by_task[Task.RERANK].results:
        assert (ranking.provider, ranking.flags) == ("none", "kept-order")
        assert [one["id"] for one in json.loads(ranking.candidates)] == ["c0", "c1", "c2"]


def test_queries_that_keep_their_order_are_not_called_reranked(tried: TryOut, jobs_of_all: Database) -> None:
    tried(next(fault for fault in FAULTS if fault.code == "kept-order"))
    with jobs_of_all.reading() as connection:
        job = find_job(connection, "last")
        message = end_message(job, None, None, None, providers_of(connection, job))

    assert "reranked" not in message
    assert (
        "\n8 queries answered by no provider. What no provider answered keeps the order of the first stage" in message
    )


def test_a_job_with_perplexities_of_two_models_says_so(
    tried: TryOut, jobs_of_all: Database, kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tried(DIES).answered == {"openai": 3, "onnx": 5}
    monkeypatch.setenv("KVJOBS_DATABASE", jobs_of_all.engine.url.render_as_string())

    shown = " ".join(kvjobs("show", "last").out.split())
    assert line_with(shown, "2 models", "3 from m ", "openai", "5 from demo-lm")
    assert "2 models" in kvjobs("totals", "last").err
