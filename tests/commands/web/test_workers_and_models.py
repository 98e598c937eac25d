"""/workers and /models."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

from jobs.store.database import Database
from jobs.store.model_reports import Verification, log_cache_reports, log_verification
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import ShardState
from jobs.system.process import ProcessId
from tests.cache_reports import MEASURED
from tests.cross_encoder_checkpoints import write_cross_encoder_checkpoint
from tests.databases import ON_BOTH
from tests.messages import line_with
from tests.rows import AddJob, AddWaitingJob, Line, enter
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model
from worker.models import drift
from worker.models.registry import list_models

ELSEWHERE = ProcessId("another machine", 4711, 1.0)
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def set_worker(database: Database, worker_id: int, **values: object) -> None:
    with database.writing() as connection:
        connection.execute(update(tables.Worker).where(tables.Worker.id == worker_id).values(**values))


@ON_BOTH
def test_each_lane_says_what_it_does(client: TestClient, database: Database, add_waiting_job: AddWaitingJob) -> None:
    worker_id, job_id = enter(database, ELSEWHERE), add_waiting_job(documents=6, per_shard=3)
    set_worker(database, worker_id, lanes=2, models='{"demo-en-zh": 1.5}', kv_bytes=2048, buffer_reuses=9)
    with database.writing() as connection:
        lease = {"state": ShardState.LEASED, "lease_owner": worker_id, "lane": 1, "in_flight": "[0, 1]"}
        connection.execute(update(tables.Shard).where(tables.Shard.start == 0).values(**lease))

    page = client.get("/workers").text

    assert line_with(page, "1 worker ", "1 of 2 ", "2.00 KiB")
    assert f'<a href="/jobs/{job_id}">job {job_id}</a>' in page
    assert "2 documents in hand" in page
    assert page.count("lane-busy") == 1
    assert line_with(page, "loaded", "1.5 s")
    assert "reused 9 times" in page
    assert client.get("/workers.json").json()["workers"][0]["shards"][0]["lane"] == 1


def test_a_stale_worker_is_explained_and_a_stopped_one_shown_on_request(client: TestClient, database: Database) -> None:
    stale, stopped = enter(database, ELSEWHERE), enter(database, ELSEWHERE)
    set_worker(database, stale, heartbeat_at=db_time(-600))
    set_worker(database, stopped, stopped_at=db_time())

    running, everything = client.get("/workers").text, client.get("/workers?stopped=true").text

    assert line_with(running, "heartbeat", "10 min")
    assert "other workers" in running
    assert f"worker {stopped}<" not in running
    assert f"worker {stopped}<" in everything
    assert "state-stopped" in everything


def test_a_worker_is_paused_resumed_and_drained_after_a_question(client: TestClient, database: Database) -> None:
    worker_id = enter(database, ELSEWHERE)
    set_worker(database, worker_id, host=HOSTILE)

    def act(action: str) -> tuple[str, str]:
        assert f'href="/workers/{worker_id}/actions/{action}"' in client.get("/workers").text
        asked = client.get(f"/workers/{worker_id}/actions/{action}").text
        token = asked.split('name="form_token" value="')[1].split('"')[0]
        after = client.post(f"/workers/{worker_id}/actions/{action}", data={"form_token": token})
        assert after.status_code == 200
        assert "<img src=x" not in asked + after.text
        (worker,) = client.get("/workers.json").json()["workers"]
        return worker["state"], worker["asked_by"]

    assert act("pause") == ("paused", "dashboard, from testclient")
    assert act("resume") == ("idle", None)
    assert act("drain")[0] == "draining"
    assert f"/workers/{worker_id}/actions/" not in client.get("/workers").text, "some lanes may have ended"
    assert client.get(f"/workers/{worker_id}/actions/resume").status_code == 400
    assert client.get(f"/workers/{worker_id + 1}/actions/pause").status_code == 404


def test_a_form_of_another_page_asks_nothing_of_a_worker(client: TestClient, database: Database) -> None:
    worker_id = enter(database, ELSEWHERE)

    assert client.post(f"/workers/{worker_id}/actions/drain", data={"form_token": "guessed"}).status_code == 400
    assert client.get("/workers.json").json()["workers"][0]["asked_to"] is None


def test_without_a_worker_the_page_says_how_to_start_one(client: TestClient) -> None:
    assert "<code>kvjobs worker</code>" in client.get("/workers").text


def test_names_of_workers_and_models_are_text(client: TestClient, database: Database, add_job: AddJob) -> None:
    worker_id = enter(database, ELSEWHERE)
    set_worker(database, worker_id, host=HOSTILE, queues=HOSTILE, node=HOSTILE, models='{"<img src=y>": 1}')
    add_job(Line("a", "甲"), model=HOSTILE)

    for path in ("/workers", "/models"):
        page = client.get(path).text
        assert "<img" not in page
        assert "\u202e" not in page.replace('"\\u202e', "")


@ON_BOTH
def test_each_model_says_what_it_is_and_what_it_was_used_for(client: TestClient, home: Path, add_job: AddJob) -> None:
    (home / "models" / "broken").mkdir(parents=True)
    (home / "models" / "broken" / "config.json").write_text('{"model_type": "marian"}')
    add_job(Line("a", "甲"), Line("b", "乙"), model="demo-en-zh")
    add_job(Line("a", "甲"), model="of-the-fleet")

    page = client.get("/models").text
    found = client.get("/models.json").json()

    assert line_with(page, "3 models", "2 jobs", "1 model ", "problem")
    assert "4 layers × 2 heads (K) × 32 (H)" in page
    assert "encoder_model.onnx is missing" in page
    assert "2 documents · 20 tokens" in page
    assert [one["model"] for one in found["elsewhere"]] == ["of-the-fleet"]
    assert [entry["usage"] and entry["usage"]["jobs"] for entry in found["models"]] == [None, 1, None]


def test_a_cross_encoder_shows_its_drift_and_no_cache(
    client: TestClient, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_cross_encoder_checkpoint(home / "pairs", "bert")
    add_model(Request(source=str(source), precision=Precision.INT8), home / "models")
    monkeypatch.setattr(drift, "MAX_SCORE_MEAN", 1e-6)

    page = client.get("/models").text

    assert line_with(page, "above the bound", "80 pairs", "score")
    assert "<dt>Attention</dt><dd>3 layers" in page
    assert page.count("Cache saves") == 2, "of the bundled models alone"


@ON_BOTH
def test_a_model_shows_what_its_newest_verification_found(client: TestClient, database: Database) -> None:
    assert client.get("/models").text.count("never verified") == 2
    (demo, _) = list_models(Path("none"))
    found = Verification(
        model=demo.name,
        model_revision=demo.revision(),
        files_stamp=demo.stamp(),
        check_name="checkpoint",
        against=HOSTILE,
        verdict="same",
        num_texts=8,
        text_unit="segment",
        corpus=None,
        same_tokens=1.0,
        worst=None,
        drift=None,
        checks=[],
        version="0.2.0",
    )
    log_verification(database, found)

    page = client.get("/models").text
    shown = {entry["model"]["name"]: entry["verification"] for entry in client.get("/models.json").json()["models"]}

    assert "same as its checkpoint" in page
    assert line_with(page, "8 segments", "bulletins")
    assert "<img" not in page
    assert page.count("never verified") == 1
    assert shown[demo.name]["verdict"] == "same"

    log_verification(database, replace(found, files_stamp="other", model_revision="other"))
    log_verification(database, replace(found, verdict="differs"))
    assert "differs from its checkpoint" in client.get("/models").text, "the newest of the files that are there"


@ON_BOTH
def test_a_model_shows_what_its_cache_saves(client: TestClient, database: Database) -> None:
    page = client.get("/models").text
    assert page.count(">not measured<") == 2
    assert "<code>kvjobs bench cache --model demo-en-zh</code>" in page
    (demo, _) = list_models(Path("none"))
    here = replace(MEASURED, model=demo.name, model_revision=demo.revision(), files_stamp=demo.stamp())
    short, elsewhere = replace(here, target_tokens=2), replace(MEASURED, model=HOSTILE, host=HOSTILE, stages=2)

    numbers = log_cache_reports(database, [here, short, elsewhere])

    page, found = client.get("/models").text, client.get("/models.json").json()
    first, second = found["caches"]
    assert [one["target_tokens"] for one in first["reports"]] == [2, 3]
    assert (first["installed_as"], first["is_current"], second["installed_as"]) == (demo.name, True, None)
    assert [entry["cache"] and entry["cache"]["ratio"] for entry in found["models"]] == [4.0, None]
    assert f'<a href="#cache-{numbers[0]}">4.00 times as fast with it</a>' in page
    assert f'data-chart="cache-{numbers[0]}-steps-data"' in page
    assert line_with(page, "split", "2 stages")
    assert "not on this machine" in page
    assert "<img" not in page
    assert "files_stamp" not in str(found)


def test_a_measurement_of_other_files_or_with_other_tokens_says_so(client: TestClient, database: Database) -> None:
    log_cache_reports(database, [replace(MEASURED, num_different=1)])

    page = client.get("/models").text

    assert "has changed since" in page
    assert "before it changed" in page
    assert "1 of 4 differ" in page
