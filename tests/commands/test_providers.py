"""Who answered a job, as commands say it: nothing for a job of onnx alone, everything for one with other providers."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.cli.render.job_end import end_message
from jobs.store.database import Database
from jobs.store.report.job_providers import providers_of
from jobs.store.report.job_summary import find_job
from jobs.store.report.totals import totals
from tests.answered_jobs import TRANSLATED, insert_answered_job
from tests.command_line import Kvjobs
from tests.messages import line_with
from tests.rows import AddJob, Line

CAUTION = (
    "Caution: the perplexities of job 1 come from 2 models and cannot be compared with each other: 1 from demo-lm at "
    "onnx, 2 from gpt-<b>4o</b> at openai. To keep those of one: kvjobs export 1 --where \"provider = 'openai'\""
)


@pytest.fixture
def scored(database: Database) -> int:
    return insert_answered_job(database)


@pytest.fixture
def translated_job(database: Database) -> int:
    return insert_answered_job(database, TRANSLATED)


def test_show_says_who_answered_what_and_why_others_did_not(kvjobs: Kvjobs, scored: int) -> None:
    page = kvjobs("show", scored).out

    for line in (
        "Providers, in the order in which they are asked",
        "  onnx    1 document answered, model demo-lm",
        r"          3 not answered (engine-error): out of memory \x1b[31m<script>alert(1)</script>",
        "  openai  2 documents answered, model gpt-<b>4o</b>",
        "          5 requests, 1,500 prompt and 20 completion tokens, cost 0.0125",
        "          1 not answered (rate-limit): HTTP 429 after 3 tries",
        "  ollama  cannot do it: it cannot score a text",
        "  none    1 document that no provider answered",
        "When a provider failed or recovered",
        CAUTION,
    ):
        assert f"\n{line}\n" in page
    assert line_with(page, "onnx failed", "engine-error", "openai")


def test_show_has_the_providers_as_json(kvjobs: Kvjobs, scored: int) -> None:
    job = kvjobs("show", scored, "--json").json

    assert job["providers"] == "onnx,openai:gpt-<b>4o</b>,ollama"
    assert [(one["provider"], one["documents"], one["cost"]) for one in job["answers"]["providers"]] == [
        ("onnx", 1, 0.0),
        ("openai", 2, 0.0125),
        ("ollama", 0, 0.0),
    ]
    assert [one["code"] for one in job["answers"]["changes"]] == ["engine-error", "rate-limit"]


def test_the_command_of_the_last_line_of_changes_answers(kvjobs: Kvjobs, scored: int) -> None:
    assert f"kvjobs query --saved provider-changes -p job {scored}" in kvjobs("show", scored).out

    changes = kvjobs("query", "--saved", "provider-changes", "-p", "job", scored, "--json").json
    used = kvjobs("query", "--saved", "providers", "-p", "job", scored, "--json").json

    assert [(one["provider"], one["next_provider"]) for one in changes] == [("onnx", "openai"), ("openai", None)]
    assert [(one["provider"], one["documents"], one["handed_over"]) for one in used][:2] == [
        ("onnx", 1, 3),
        ("openai", 2, 1),
    ]


def test_a_job_that_only_onnx_may_answer_is_shown_without_providers(kvjobs: Kvjobs, finished_job: int) -> None:
    assert "rovider" not in kvjobs("show", finished_job).out


def test_the_end_of_a_job_says_who_answered_and_that_scores_of_two_models_differ(
    database: Database, scored: int, add_job: AddJob
) -> None:
    with database.reading() as connection:
        job = find_job(connection, str(scored))
        message = end_message(job, None, None, totals(connection, job), providers_of(connection, job))

    assert message.splitlines()[1:6] == [
        "1 document answered by onnx, 2 by openai, 1 by no provider.",
        "onnx did not answer 3 (engine-error): out of memory \x1b[31m<script>alert(1)</script>",
        "openai did not answer 1 (rate-limit): HTTP 429 after 3 tries",
        "ollama was not asked: it cannot score a text",
        CAUTION,
    ]
    assert "Perplexity of the corpus" not in message
    assert "perplexity < 50" not in message


def test_totals_over_two_models_carry_the_caution(kvjobs: Kvjobs, scored: int) -> None:
    assert CAUTION in kvjobs("totals", scored).err


def test_a_comparison_says_who_answered(kvjobs: Kvjobs, database: Database, translated_job: int) -> None:
    other = insert_answered_job(database, TRANSLATED)

    page = kvjobs("compare", translated_job, other).out

    assert line_with(page, "A: ", "1 document", "onnx", "2 by openai", "1 by no")


def test_documents_are_selected_by_their_provider(kvjobs: Kvjobs, scored: int) -> None:
    kept = kvjobs("export", scored, "--where", "provider = 'openai'").out

    assert [json.loads(line)["id"] for line in kept.splitlines()] == ["d1", "d2"]


def test_exports_name_the_provider_of_each_result(kvjobs: Kvjobs, translated_job: int) -> None:
    lines = [json.loads(line) for line in kvjobs("export", translated_job, "--with", "log_prob").out.splitlines()]
    rows = kvjobs("export", translated_job, "--format", "csv").out.splitlines()

    assert [(line["provider"], line["log_prob"]) for line in lines] == [
        ("onnx", -1.0),
        ("openai", None),
        ("openai", None),
        (None, None),
    ]
    assert rows[0] == "id,status,translation,flags,provider,error_code,error,line,fields"
    assert rows[2] == "d1,ok,云,unscored,openai,,,2,"


def test_a_parquet_file_names_the_provider_and_has_no_number_for_an_unknown_log_probability(
    kvjobs: Kvjobs, translated_job: int, tmp_path: Path
) -> None:
    pq: Any = pytest.importorskip("pyarrow.parquet")
    kvjobs("export", translated_job, "-o", tmp_path / "out.parquet", "--with", "log_prob")

    table = pq.read_table(tmp_path / "out.parquet").to_pydict()

    assert table["provider"] == ["onnx", "openai", "openai", None]
    assert table["log_prob"] == [-1.0, None, None, None]


def test_the_export_of_a_job_of_onnx_alone_is_what_it_was_to_the_byte(kvjobs: Kvjobs, add_job: AddJob) -> None:
    """A field of the corpus with the name of the new column stays where it was."""
    job = add_job(Line("a", "甲", fields={"provider": "Reuters"}), Line("b", "乙", flags="split"))

    assert kvjobs("export", job).out == (
        '{"id":"a","status":"ok","translation":"甲","provider":"Reuters"}\n'
        '{"id":"b","status":"ok","translation":"乙","flags":["split"]}\n'
    )
    assert kvjobs("export", job, "--format", "csv").out == (
        "id,status,translation,flags,provider,error_code,error,line,fields\n"
        "a,ok,甲,,Reuters,,,1,\nb,ok,乙,split,,,,2,\n"
    )


def test_the_json_of_a_job_that_was_waited_for_has_the_providers(kvjobs: Kvjobs, scored: int) -> None:
    job = kvjobs("wait", scored, "--json").json

    assert (job["exit_code"], job["answers"]["unanswered"]) == (3, 1)
    assert [one["provider"] for one in job["answers"]["providers"]] == ["onnx", "openai", "ollama"]
