"""A Celery application asks for a job, with nothing of kvjobs installed: the answer is the job's number."""

import pytest
from celery import Celery

from tests.end_to_end.test_python import TEXTS
from tests.integration.conftest import Fleet
from tests.machine import until

DOCUMENTS = [{"id": str(number), "text": text} for number, text in enumerate(TEXTS)]


@pytest.fixture
def app(fleet: Fleet) -> Celery:
    return Celery("shop", broker=fleet.redis.url, backend=fleet.redis.url, set_as_current=False)


def test_an_application_gets_the_number_of_its_job_though_the_process_that_answers_is_killed(
    fleet: Fleet, app: Celery
) -> None:
    hits = fleet.machine.folder / "hits"
    fleet.worker(KVJOBS_FAILPOINTS="before-ingest-finish:kill", KVJOBS_FAILPOINTS_LOG=str(hits))
    options = {"task": "translate", "model": "demo-en-zh", "name": "shop"}

    first = app.send_task("kvjobs.submit", [DOCUMENTS, options], queue="kvjobs.submit")
    again = app.send_task("kvjobs.submit", [DOCUMENTS, options], queue="kvjobs.submit")
    other = app.send_task("kvjobs.submit", [TEXTS[:1]], {"model": "demo-en-zh"}, queue="kvjobs.submit")
    bad = app.send_task("kvjobs.submit", [DOCUMENTS, {"modle": "x"}], queue="kvjobs.submit")

    assert first.get(timeout=60) == again.get(timeout=60) != other.get(timeout=60)
    assert len(hits.read_text().splitlines()) == 1
    with pytest.raises(Exception, match="modle"):
        bad.get(timeout=60)
    until(fleet.is_done)
    assert fleet.succeeded() == len(DOCUMENTS) + 1
    assert fleet.ask("select count(*) from jobs") == [(2,)]
