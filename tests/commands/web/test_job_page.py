"""/jobs/N: every figure of the page is in the HTML too, and no text of a corpus is taken for markup."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, update
from starlette.testclient import TestClient

from jobs.outcome import Score, StepTiming
from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.store.schema.states import DocumentStatus
from jobs.store.schema.tables import Job
from jobs.store.worker_registry import register
from jobs.tasks.score import ScoreOptions
from jobs.tasks.shared_options import Timing
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.answered_jobs import insert_answered_job
from tests.command_line import Kvjobs
from tests.databases import ON_BOTH
from tests.messages import line_with
from tests.rows import AddJob, AddWaitingJob, Line, add_timings
from tests.small_chains import KEPT, SCORED, begin, finish_all

ORDER = ("failures", "providers", "speed", "seconds", "decoder", "lanes", "latency", "perplexity", "shards", "events")
HOSTILE = "<script>alert(1)</script>\u202e&\"'`{{7*7}}"


def plain(html: str) -> str:
    """The text of a page, with single spaces."""
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)))


def sections_of(page: str) -> list[str]:
    """The parts of the page, in their order."""
    return re.findall(r'<details class="part" id="(\w+)"', page)


@pytest.fixture
def timed_job(database: Database, finished_job: int) -> int:
    """A finished job with a batch of 40 decoder steps on each of two lanes."""
    for lane in (0, 1):
        steps = [StepTiming("decode", step, 3, 3, step, 0.003) for step in range(1, 41)]
        add_timings(database, finished_job, [StepTiming("encode", 0, 3, 30, 0, 0.04), *steps], lane)
    return finished_job


@pytest.fixture
def scored_job(add_job: AddJob) -> int:
    """40 documents with perplexities from exp(0.1) to exp(4)."""
    scores = [Score(nll_sum=float(at), num_tokens=10, num_words=1, num_bytes=1) for at in range(1, 41)]
    lines = [Line(f"d{at}", result=one) for at, one in enumerate(scores)]
    return add_job(*lines, task=Task.SCORE, options=ScoreOptions())


@ON_BOTH
def test_the_page_and_its_json_say_the_same_of_every_part(client: TestClient, timed_job: int) -> None:
    page = client.get(f"/jobs/{timed_job}")
    found = client.get(f"/jobs/{timed_job}.json").json()

    assert page.status_code == 200
    sections = sections_of(page.text)
    assert set(sections) >= {"speed", "seconds", "decoder", "lanes", "perplexity", "shards"}
    assert sections == [name for name, _ in found["sections"]]
    for section in sections:
        assert f'href="#{section}"' in page.text
    for chart in ("speed", "seconds", "steps", "past_lengths", "slots", "perplexity"):
        assert found[chart]["sentence"] in plain(page.text)
    assert "3.00 ms" in found["steps"]["sentence"]
    assert found["phases_sentence"].startswith("Decode takes 75.0 % and encode takes 25.0 % of the time")
    assert [lane["batches"] for lane in found["timeline"]["lanes"]] == [1, 1]


@ON_BOTH
def test_a_job_of_many_batches_is_drawn_from_its_first_minute_to_its_last(
    client: TestClient, database: Database, timed_job: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page reads the newest batches alone, but the seconds of all."""
    monkeypatch.setattr("jobs.web.pages.job.MOST_BATCHES", 2)
    began = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=60)
    add_timings(database, timed_job, [StepTiming("decode", 1, 3, 3, 0, 120.0)], at=began)

    page = plain(client.get(f"/jobs/{timed_job}").text)
    found = client.get(f"/jobs/{timed_job}.json").json()["seconds"]

    model, other = (series["values"] for series in found["series"])
    assert (model[0], len(found["x"]), any(other)) == (0.4, 13, False)  # of 300 s each
    assert found["x"][0] == f"{began.astimezone():%m-%d %H:%M}"
    assert found["sentence"].startswith("2 min 00 s of work in the whole job, 100.0 % of it in model calls;")
    assert found["sentence"] in page
    assert "time, 5 min a bar model calls (s of work per s) other phases (s of work per s)" in page
    assert f" {found['x'][0]} 0.4 0 {found['x'][1]} 0 0 " in page


@pytest.mark.parametrize("name", ["running_job", "mixed_job", "finished_job"])
def test_a_part_without_anything_to_show_is_left_out(
    client: TestClient, request: pytest.FixtureRequest, name: str
) -> None:
    sections = sections_of(client.get(f"/jobs/{request.getfixturevalue(name)}").text)

    assert not {"decoder", "lanes", "latency", "events", "chain", "providers"} & set(sections)
    assert ("failures" in sections) == (name != "finished_job")


def test_a_job_without_timings_says_why(client: TestClient, add_job: AddJob) -> None:
    job_id = add_job(Line("a", "甲"), options=TranslateOptions(timing=Timing.OFF))

    page = client.get(f"/jobs/{job_id}").text

    assert "seconds" in sections_of(page)
    assert "--timing off" in page


def test_failures_and_providers_come_before_the_charts(client: TestClient, database: Database, mixed_job: int) -> None:
    for job_id in (mixed_job, insert_answered_job(database)):
        sections = sections_of(client.get(f"/jobs/{job_id}").text)

        assert sections == [name for name in ORDER if name in sections]
        assert sections[0] in ("failures", "providers")


def test_what_is_shown_of_one_moment_is_of_one_snapshot(client: TestClient, running_job: int) -> None:
    """The sentence, the tile and the list of statuses of a page are one reading; a page that is read anew is, too."""
    found = client.get(f"/jobs/{running_job}.json").json()
    succeeded = f"{found['job']['succeeded']:,}"

    assert found["sentence"].startswith("It waits for a worker")
    assert f" {succeeded} of " in found["sentence"]
    assert found["tiles"][0]["value"] == succeeded
    assert found["time_left"] == ""
    page = client.get(f"/jobs/{running_job}").text
    assert f'data-stamp="{found["stamp"]}"' in page
    assert f'data-live="job={running_job}"' in page


def test_the_stamp_of_a_page_changes_with_the_job(client: TestClient, database: Database, running_job: int) -> None:
    def stamps() -> list[str]:
        return [client.get(path).json()["stamp"] for path in (f"/jobs/{running_job}.json", "/jobs.json")]

    before = stamps()
    assert stamps() == before
    with database.writing() as connection:
        connection.execute(update(Job).values(paused=True))
    assert all(one != other for one, other in zip(before, stamps(), strict=True))


def test_the_results_are_downloaded_from_the_top_of_the_page(client: TestClient, mixed_job: int) -> None:
    page = client.get(f"/jobs/{mixed_job}").text
    form = page.split('<details class="download">')[1].split("</details>")[0]

    assert page.index('class="download"') < page.index('id="counts"')
    assert f'action="/jobs/{mixed_job}/export"' in form
    for name in ("jsonl", "csv", "tsv", "txt", "original"):
        if f'value="{name}"' in form:
            assert client.get(f"/jobs/{mixed_job}/export?format={name}&status=&where=").status_code == 200
    lines = client.get(f"/jobs/{mixed_job}/export?format=jsonl&status=failed&where=").text.splitlines()
    assert [json.loads(line)["status"] for line in lines] == ["failed"]


def test_all_stages_of_a_chain_are_downloaded_together(client: TestClient, database: Database, tmp_path: Path) -> None:
    begin(database, tmp_path, SCORED, KEPT)
    finish_all(database)
    assert "chain=true&amp;format=jsonl" in client.get("/jobs/2").text

    answer = client.get("/jobs/2/export?chain=true&format=jsonl")

    assert "chain-1.jsonl" in answer.headers["content-disposition"]
    assert all({"translation", "score"} <= json.loads(line).keys() for line in answer.text.splitlines())
    assert client.get("/jobs/2/export?chain=true&format=txt").status_code == 400
    assert client.get("/jobs/2/export?format=trec").status_code == 400


def test_the_commands_of_the_page_are_commands_of_kvjobs(client: TestClient, kvjobs: Kvjobs, add_job: AddJob) -> None:
    options = TranslateOptions(beam_size=4, reuse=False)
    job_id = add_job(Line("a", "甲"), source="/data/a b.jsonl", options=options)
    commands = client.get(f"/jobs/{job_id}.json").json()["commands"]

    assert commands["again"] == (
        "kvjobs submit '/data/a b.jsonl' --task translate --model opus-mt-en-zh --beam-size 4 --no-reuse --again"
    )
    assert commands["next"] == kvjobs("show", job_id, "--json").json["next"]


def test_failures_are_grouped_with_samples(client: TestClient, mixed_job: int) -> None:
    text = plain(client.get(f"/jobs/{mixed_job}").text)

    assert "1 failed, 1 quarantined, 1 rejected, for 3 reasons." in text
    for part in ("engine-error", "it broke", "bad-json", "line 3 is not JSON", "two workers died"):
        assert part in text


@ON_BOTH
def test_the_threshold_is_counted_without_a_script(client: TestClient, kvjobs: Kvjobs, scored_job: int) -> None:
    """4 is the end of a bucket, and 13 documents have a perplexity of exp(1.3) or less."""
    page = plain(client.get(f"/jobs/{scored_job}?below=4").text)
    threshold = client.get(f"/jobs/{scored_job}.json?below=4").json()["threshold"]
    exported = kvjobs("export", scored_job, "--where", "perplexity < 4").out

    assert threshold["command"] == f"kvjobs export {scored_job} --where 'perplexity < 4' --format original"
    assert threshold["command"] in page
    assert line_with(page, "13 of 40 ", "32.5 %", "below 4.")
    assert len(exported.splitlines()) == 13


@pytest.mark.parametrize("below", ["0", "-1", "nan", "inf", "1e300", "x"])
def test_a_threshold_that_is_none_is_refused(client: TestClient, scored_job: int, below: str) -> None:
    assert client.get(f"/jobs/{scored_job}?below={below}").status_code == 400


def test_a_waiting_shard_says_why_it_waits(
    client: TestClient, database: Database, add_waiting_job: AddWaitingJob
) -> None:
    first, second = add_waiting_job(), add_waiting_job()

    def why(job_id: int) -> list[str]:
        return [line["why"] for line in client.get(f"/jobs/{job_id}.json").json()["waiting"]]

    assert why(first) == ["No worker is running. To start one: kvjobs worker"] * 2
    worker_id = register(database, device="cpu", provider="test", lanes=1)
    assert why(first)[0] == "It is next, and a lane is free: a worker takes it within seconds."
    assert why(second)[0] == "1 job with 6 documents is ahead of it."
    leases.lease(database, worker_id, 0, 60.0)
    assert why(first) == ["It is next; the only lane that serves the job is busy."]
    assert client.get(f"/jobs/{first}.json").json()["leased"][0]["why"].startswith(f"Lane 0 of worker {worker_id} on ")
    with database.writing() as connection:
        connection.execute(update(Job).where(Job.id == second).values(paused=True, reason="lunch"))
    assert why(second)[0] == f"The job is paused (lunch). To resume it: kvjobs resume {second}"


def test_pages_of_shards_have_all_their_state_in_the_address(
    client: TestClient, add_waiting_job: AddWaitingJob
) -> None:
    job_id = add_waiting_job(documents=120, per_shard=1)
    first = client.get(f"/jobs/{job_id}/shards.json").json()
    second = client.get(f"/jobs/{job_id}/shards.json?after={first['next_after']}").json()
    last = client.get(f"/jobs/{job_id}/shards.json?after={second['next_after']}").json()

    starts = [line["shard"]["start"] for page in (first, second, last) for line in page["lines"]]
    assert starts == list(range(120))
    assert last["next_after"] is None
    assert f"?after={first['next_after']}" in client.get(f"/jobs/{job_id}/shards").text
    assert "No shard" in plain(client.get(f"/jobs/{job_id}/shards?state=done").text)


def test_the_events_of_a_shard_are_those_of_its_job_alone(
    client: TestClient, database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job_id, other = add_waiting_job(), add_waiting_job()
    work = leases.lease(database, 1, 0, 60.0)
    assert work

    shown = client.get(f"/jobs/{job_id}/shards?state=leased&shard={work.shard_id}").text
    assert f"What happened to shard {work.shard_id}" in shown
    assert client.get(f"/jobs/{other}/shards.json?shard={work.shard_id}").json()["events"] == []


def test_texts_of_a_corpus_are_never_markup(client: TestClient, add_job: AddJob) -> None:
    failed = Line(HOSTILE, status=DocumentStatus.FAILED, error=(HOSTILE, HOSTILE))
    job_id = add_job(failed, name=HOSTILE, source=HOSTILE, model=HOSTILE, reason=HOSTILE)

    for path in (f"/jobs/{job_id}", f"/jobs/{job_id}/shards"):
        page = client.get(path)
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert "&lt;script&gt;alert" in page.text
        assert "{{7*7}}" in page.text


def test_figures_for_scripts_cannot_end_the_script(client: TestClient, timed_job: int) -> None:
    page = client.get(f"/jobs/{timed_job}").text
    blocks = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page)

    assert len(blocks) > 5
    for block in blocks:
        json.loads(block)
        assert "<" not in block


@pytest.mark.parametrize("path", ["/jobs/99", "/jobs/99/shards", "/jobs/0", "/jobs/99999999999999999999"])
def test_a_job_that_is_not_there_is_not_found(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in (400, 404)


@contextmanager
def statements_of(database: Database) -> Iterator[list[tuple[str, Any]]]:
    """The statements that are executed meanwhile, with their parameters."""
    seen: list[tuple[str, Any]] = []

    def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        seen.append((statement, parameters))

    event.listen(database.engine, "before_cursor_execute", note)
    yield seen
    event.remove(database.engine, "before_cursor_execute", note)


@pytest.mark.parametrize("path", ["", "/shards", "/shards?state=done&shard=1"])
def test_no_statement_of_the_page_scans_a_table_that_grows(
    client: TestClient, database: Database, running_job: int, path: str
) -> None:
    """With ten million documents and twenty thousand shards a scan would take seconds."""
    with statements_of(database) as seen:
        assert client.get(f"/jobs/{running_job}{path}").status_code == 200

    queries = [(sql, parameters) for sql, parameters in seen if sql.lstrip().upper().startswith("SELECT")]
    assert len(queries) > 3
    with database.engine.connect() as connection:
        for sql, parameters in queries:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", parameters).all()
            scanned = [
                row[3]
                for row in plan
                if re.match(r"SCAN (?!workers|tokens USING INDEX|CONSTANT|\(subquery|anon_)", row[3])
            ]
            assert not scanned, sql


def test_the_page_offers_the_actions_that_the_state_allows(client: TestClient, running_job: int) -> None:
    page = client.get(f"/jobs/{running_job}").text

    for action in ("pause", "priority", "cancel"):
        assert f'href="/jobs/{running_job}/actions/{action}"' in page
    assert f'href="/jobs/{running_job}/actions/resume"' not in page


def test_a_job_with_other_providers_says_who_answered_and_warns_of_mixed_scores(
    client: TestClient, database: Database
) -> None:
    job = insert_answered_job(database)
    page = client.get(f"/jobs/{job}").text

    text = plain(page)
    assert line_with(text, "1 document", "onnx", "2 by openai", "1 by no")
    assert line_with(text, "1 from demo-lm", "onnx", "2 from gpt-<b>4o</b>", "openai")
    assert line_with(text, "ollama: ", "cannot", "score")
    assert line_with(text, "onnx failed", "engine-error", "openai")
    assert "<script>alert(1)" not in page
    assert "<b>4o" not in page


def test_a_job_of_onnx_alone_has_no_section_of_providers(client: TestClient, finished_job: int) -> None:
    assert 'id="providers"' not in client.get(f"/jobs/{finished_job}").text
