"""How many hints there should be, and where."""

import pytest

from jobs.queues import Queues
from jobs.store.waiting import (
    LiveWorker,
    WaitingShards,
    spread_hints,
)

CPU = LiveWorker(Queues.parse(""), lanes=2)

GPU = LiveWorker(Queues.parse("", "cuda:0"), lanes=1)


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
def test_one_hint_a_shard_and_two_a_lane_at_most(
    waiting: list[WaitingShards], workers: list[LiveWorker], wanted: dict[str, int]
) -> None:
    assert spread_hints(waiting, workers) == wanted


@pytest.mark.parametrize(
    ("queues", "device", "queue", "heard_in"),
    [
        ("model:m", "cpu", "cpu", "model:m"),
        ("model:m", "cpu", "gpu", None),
        ("model:m", "cuda:0", "gpu", "model:m"),
        ("model:n", "cpu", "cpu", None),
        ("cpu,model:m", "cpu", "cpu", "cpu"),
        ("cpu,model:m", "cuda:0", "gpu", "model:m"),
    ],
)
def test_a_worker_is_told_where_it_listens(queues: str, device: str, queue: str, heard_in: str | None) -> None:
    wanted = spread_hints([WaitingShards(queue, "m", 1)], [LiveWorker(Queues.parse(queues, device), lanes=1)])

    assert wanted == ({heard_in: 1} if heard_in else {})
