"""/metrics, as Prometheus' own parser reads it, and /healthz; what deploy/ has is about metrics that there are."""

import json
import re
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML
from sqlalchemy import update
from starlette.testclient import TestClient

from jobs.outcome import StepTiming
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.report import metrics
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import DocumentStatus
from jobs.system.process import ProcessId
from jobs.web.app import Options, create_app
from jobs.web.pages.monitoring import WORKER_STATES
from tests.command_line import Kvjobs
from tests.databases import ON_BOTH
from tests.places import CHECKOUT
from tests.rows import AddJob, AddWaitingJob, Line, add_timings, enter

DASHBOARD = json.loads((CHECKOUT / "deploy/grafana/kvjobs-dashboard.json").read_text(encoding="utf-8"))
ALERTS = YAML(typ="safe", pure=True).load((CHECKOUT / "deploy/prometheus/kvjobs-alerts.yml").read_text("utf-8"))
NAME = re.compile(r"\bkvjobs_[a-z_]+\b")


def families(client: TestClient) -> dict[str, Any]:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        family.name + ("_total" if family.type == "counter" else ""): family
        for family in text_string_to_metric_families(answer.text)
    }


def values(client: TestClient, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    return {tuple(sample.labels[label] for label in labels): sample.value for sample in families(client)[name].samples}


def test_all_that_shows_a_job_says_that_it_waits_for_a_worker(
    client: TestClient, kvjobs: Kvjobs, add_job: AddJob, add_waiting_job: AddWaitingJob
) -> None:
    add_job(Line("a", "甲"))
    job = add_waiting_job()

    commands = (("show",), ("wait", "--timeout", "0"), ("pause",), ("resume",), ("priority", "high"), ("retry",))
    said = {name: kvjobs(name, job, *more, "--json").json["shown_state"] for name, *more in commands}
    pages = (f"/jobs/{job}.json", f"/jobs/{job}/documents.json", f"/jobs/{job}/actions.json")
    said |= {page: client.get(page).json()["job"]["shown_state"] for page in pages}
    said["/metrics"] = dict(values(client, "kvjobs_job_info", "job_id", "state").keys())[str(job)]

    assert said == dict.fromkeys(said, "waiting") | {"pause": "paused"}
    assert kvjobs("ls", "--json").json[0]["shown_state"] == "waiting"


@ON_BOTH
def test_documents_tokens_seconds_and_failures_are_those_of_the_jobs(
    client: TestClient, database: Database, add_job: AddJob
) -> None:
    job = add_job(
        *(Line(f"d{number}", "译") for number in range(3)),
        Line("bad", status=DocumentStatus.FAILED, error=("engine-error", "it broke")),
        name='night "one"',
    )
    add_timings(database, job, [StepTiming("decode", 0, 1, 1, 0, 2.5), StepTiming("encode", 0, 1, 1, 0, 1.0)])

    documents = values(client, "kvjobs_job_documents", "job_id", "state")

    assert documents[str(job), "succeeded"] == 3
    assert documents[str(job), "failed"] == 1
    assert values(client, "kvjobs_job_tokens_total", "side") == {("source",): 30, ("target",): 30}
    assert values(client, "kvjobs_job_phase_seconds_total", "phase") == {("decode",): 2.5, ("encode",): 1.0}
    assert values(client, "kvjobs_job_failed_documents", "status", "code") == {("failed", "engine-error"): 1}
    assert values(client, "kvjobs_job_info", "name", "state") == {('night "one"', "done"): 1}
    assert values(client, "kvjobs_database_size_bytes")[()] > 100_000


@ON_BOTH
def test_workers_lanes_and_waiting_shards_are_counted(
    client: TestClient, database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=6, per_shard=3)
    enter(database, ProcessId("another machine", 1, 1.0))
    stale = enter(database, ProcessId("another machine", 2, 1.0))
    with database.writing() as connection:
        connection.execute(
            update(tables.Worker).where(tables.Worker.id == stale).values(heartbeat_at=db_time(-900), lanes=64)
        )
        connection.execute(update(tables.Shard).values(available_at=db_time(-50)))

    assert values(client, "kvjobs_workers", "state") == {
        (name,): int(name in ("idle", "stale")) for name in WORKER_STATES
    }
    assert values(client, "kvjobs_lanes", "state") == {("busy",): 0, ("idle",): 1}
    assert values(client, "kvjobs_waiting_shards", "queue") == {("cpu",): 2}
    assert 50 <= values(client, "kvjobs_oldest_waiting_shard_seconds", "queue")[("cpu",)] < 90


@ON_BOTH
def test_series_are_of_open_jobs_and_of_those_that_ended_in_the_last_day(
    client: TestClient, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_job(Line("a", "甲"), finished_s_ago=90_000)
    lately, running = add_job(Line("a", "甲"), finished_s_ago=80_000), add_job(Line("a"))

    assert set(values(client, "kvjobs_job_info", "job_id")) == {(str(lately),), (str(running),)}
    monkeypatch.setattr(metrics, "MAX_JOBS", 1)
    assert set(values(client, "kvjobs_job_info", "job_id")) == {(str(running),)}


def test_names_keep_the_conventions_and_every_family_has_a_help(client: TestClient, finished_job: int) -> None:
    found = families(client)

    assert len(found) >= 14
    for name, family in found.items():
        assert NAME.fullmatch(name), name
        assert family.documentation.endswith("."), name
        assert (family.type == "counter") == name.endswith("_total"), name
        for sample in family.samples:
            assert not {"job", "instance", "le", "quantile"} & sample.labels.keys(), "Prometheus sets these itself"
        assert not re.search(r"_(ms|minutes|kb|mb|count|sum|bucket)(_|$)", name), name


def test_without_a_row_there_is_a_zero_or_nothing(client: TestClient) -> None:
    assert values(client, "kvjobs_workers", "state") == {(name,): 0 for name in WORKER_STATES}
    assert values(client, "kvjobs_job_info", "job_id") == {}


def test_every_panel_shows_metrics_that_there_are_and_every_metric_has_a_panel(client: TestClient) -> None:
    expressions = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    named = {name for expression in expressions for name in NAME.findall(expression)}

    assert named == families(client).keys()


def test_the_dashboard_can_be_imported_and_be_provisioned() -> None:
    """Of a file that Grafana finds at its start, `__inputs` would stay unanswered; a variable takes the only source."""
    panels = DASHBOARD["panels"]
    (source,) = DASHBOARD["templating"]["list"]
    assert (source["type"], source["query"]) == ("datasource", "prometheus")
    assert "__inputs" not in DASHBOARD

    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["title"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == f"${{{source['name']}}}"
    tiles = [(p["gridPos"]["x"] + dx, p["gridPos"]["y"] + dy) for p in panels for dx, dy in _tiles(p["gridPos"])]
    assert len(tiles) == len(set(tiles)), "two panels overlap"


def test_every_alert_is_about_metrics_and_labels_that_there_are(
    client: TestClient, database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job()
    found = families(client)
    labels = {label for family in found.values() for sample in family.samples for label in sample.labels}
    (group,) = ALERTS["groups"]

    assert len(group["rules"]) >= 6
    for rule in group["rules"]:
        assert set(NAME.findall(rule["expr"])) <= found.keys(), rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description"}
        used = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert used <= labels | {"instance"}, rule["alert"]
        for name in re.findall(r"kvjobs query --saved (\S+)", str(rule["annotations"])):
            assert client.get(f"/query?saved={name}").status_code == 200


@ON_BOTH
def test_health_is_progress(client: TestClient, database: Database, add_waiting_job: AddWaitingJob) -> None:
    assert client.get("/healthz").json() == {"status": "ok", "sentence": "No work waits."}
    add_waiting_job()
    with database.writing() as connection:
        connection.execute(update(tables.Shard).values(available_at=db_time(-200)))

    stuck, patient = client.get("/healthz"), client.get("/healthz?max-wait=600")

    assert (stuck.status_code, stuck.json()["status"]) == (503, "stuck")
    assert (patient.status_code, patient.json()["status"]) == (200, "ok")
    for wrong in ("0", "-1", "x", "nan", "inf"):
        assert client.get(f"/healthz?max-wait={wrong}").status_code == 400


def test_a_database_that_does_not_answer_is_unhealthy_and_not_named(
    client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.writing() as connection:
        connection.exec_driver_sql("DROP TABLE shards")

    answer = client.get("/healthz")

    assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")
    assert "shards" not in answer.text
    assert "kvjobs.db" not in answer.text


def test_health_is_open_and_metrics_ask_for_the_token(database: Database, home: Any) -> None:
    options = Options(hosts=("testserver",), token="open sesame")
    app = create_app(database, Settings(home=home, models_dir=home / "models"), options)
    with TestClient(app) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/metrics").status_code == 401
        assert client.get("/metrics", headers={"authorization": "Bearer open sesame"}).status_code == 200


def _tiles(place: dict[str, int]) -> list[tuple[int, int]]:
    return [(dx, dy) for dx in range(place["w"]) for dy in range(place["h"])]
