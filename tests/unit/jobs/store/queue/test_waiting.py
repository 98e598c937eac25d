"""How many hints are sent, and to which queues."""

import pytest

from jobs.queues import Queues
from jobs.store.queue.waiting import (
    LiveWorker,
    WaitingShards,
    spread_hints,
)

CPU = LiveWorker(1, Queues.parse(""), lanes=2)

GPU = LiveWorker(2, Queues.parse("", "cuda:0"), lanes=1)


@pytest.mark.parametrize(
    ("waiting", "workers", "wanted"),
    [
        ([WaitingShards("cpu", "m", 9)], [], {}),
        ([WaitingShards("cpu", "m", 1)], [CPU], {"cpu": 1}),
        ([WaitingShards("cpu", "m", 9)], [CPU], {"cpu": 4}),
        ([WaitingShards("cpu", "m", 9)], [CPU, GPU], {"cpu": 6}),
        ([WaitingShards("gpu", "m", 9)], [CPU, GPU], {"gpu": 2}),
        ([WaitingShards("gpu", "m", 9)], [CPU], {}),
        ([WaitingShards("cpu", "m", 1), WaitingShards("cpu", "n", 2)], [CPU], {"cpu": 3}),
    ],
)
def test_at_most_one_hint_per_shard_and_two_per_lane_are_sent(
    waiting: list[WaitingShards], workers: list[LiveWorker], wanted: dict[str, int]
) -> None:
    assert spread_hints(waiting, workers) == wanted


@pytest.mark.parametrize(
    ("queues", "device", "queue", "hinted"),
    [
        ("model:m", "cpu", "cpu", "model:m"),
        ("model:m", "cpu", "gpu", None),
        ("model:m", "cuda:0", "gpu", "model:m"),
        ("model:n", "cpu", "cpu", None),
        ("cpu,model:m", "cpu", "cpu", "cpu"),
        ("cpu,model:m", "cuda:0", "gpu", "model:m"),
    ],
)
def test_a_hint_goes_to_a_queue_that_the_worker_listens_to(
    queues: str, device: str, queue: str, hinted: str | None
) -> None:
    wanted = spread_hints([WaitingShards(queue, "m", 1)], [LiveWorker(1, Queues.parse(queues, device), lanes=1)])

    assert wanted == ({hinted: 1} if hinted else {})
