"""Names of queues."""

import pytest

from jobs.errors import SpecError
from jobs.queues import Queues, check_queue


def test_queues_read_back_as_they_are_written() -> None:
    assert str(Queues.parse("model:b, cpu ,gpu", "cuda:1")) == "cpu,gpu,model:b"
    assert Queues.parse(str(Queues.parse("", "cuda:0")), "cuda:0") == Queues.parse("", "cuda:0")


@pytest.mark.parametrize("text", ["tpu", "model:", "cpu,,x", "gpu"])
def test_a_queue_that_no_worker_could_serve_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="queue"):
        Queues.parse(text)


def test_a_job_cannot_ask_for_a_queue_of_a_model() -> None:
    with pytest.raises(SpecError, match=r"cpu .* or gpu"):
        check_queue("model:mine")
