"""When a lane counts as hung, and when it does not."""

import pytest

from tests.messages import line_with
from worker.process.watchdog import Watchdog, WatchedCalls


class Reasons(list[str]):
    def __call__(self, reason: str) -> None:
        self.append(reason)


@pytest.fixture
def reasons() -> Reasons:
    return Reasons()


@pytest.fixture
def watchdog(reasons: Reasons, monkeypatch: pytest.MonkeyPatch) -> Watchdog:
    watchdog = Watchdog(hang_s=100.0, lease_s=60.0, on_hang=reasons)
    monkeypatch.setattr(watchdog, "_arm", lambda: None)
    return watchdog


def pass_time(watchdog: Watchdog, seconds: int) -> None:
    for _ in range(seconds):
        watchdog.heard_heartbeat()
        watchdog.tick(1.0)


def test_a_call_without_a_step_for_too_long_is_reported_by_name(watchdog: Watchdog, reasons: Reasons) -> None:
    with WatchedCalls(watchdog).watching("shard 7, documents 3 to 9"):
        pass_time(watchdog, 100)
        assert reasons == []
        pass_time(watchdog, 1)

    assert line_with(reasons[0], "shard 7", "documents ", "3 to 9")
    assert "101 s" in reasons[0]


def test_every_step_is_a_sign_of_life(watchdog: Watchdog, reasons: Reasons) -> None:
    with (call := WatchedCalls(watchdog)).watching("x"):
        for _ in range(5):
            pass_time(watchdog, 90)
            call.step()

    assert reasons == []


def test_a_lane_without_a_call_is_not_watched(watchdog: Watchdog, reasons: Reasons) -> None:
    with WatchedCalls(watchdog).watching("x"):
        pass_time(watchdog, 50)
    pass_time(watchdog, 500)

    assert reasons == []


def test_waiting_for_the_database_is_not_watched_but_the_step_after_it_is(watchdog: Watchdog, reasons: Reasons) -> None:
    with (call := WatchedCalls(watchdog)).watching("x"):
        with call.waiting():
            pass_time(watchdog, 500)
        pass_time(watchdog, 100)
        assert reasons == []
        pass_time(watchdog, 1)
        assert len(reasons) == 1


def test_a_model_with_slow_steps_gets_a_longer_deadline(watchdog: Watchdog, reasons: Reasons) -> None:
    with (call := WatchedCalls(watchdog)).watching("x"):
        for _ in range(20):
            pass_time(watchdog, 10)
            call.step()
        assert watchdog.deadline_s() == 200.0
        pass_time(watchdog, 199)
        assert reasons == []
        pass_time(watchdog, 2)
        assert len(reasons) == 1


def test_one_slow_step_among_many_does_not_extend_the_deadline(watchdog: Watchdog) -> None:
    with (call := WatchedCalls(watchdog)).watching("x"):
        pass_time(watchdog, 50)
        call.step()
        for _ in range(200):
            call.step()

    assert watchdog.deadline_s() == 100.0


def test_a_heartbeat_without_an_answer_ends_the_process(watchdog: Watchdog, reasons: Reasons) -> None:
    for _ in range(120):
        watchdog.tick(1.0)
    assert reasons == []
    watchdog.tick(1.0)
    assert "heartbeat" in reasons[0]


def test_connections_without_an_answer_are_cut_although_another_connection_gets_answers(
    reasons: Reasons, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The heartbeat gets answers while a lane waits on a connection that a proxy has dropped."""
    silent = iter([False] * 60 + [True] + [False] * 39)
    watchdog = Watchdog(hang_s=300.0, lease_s=60.0, on_hang=reasons, cut_connections=lambda: next(silent))
    monkeypatch.setattr(watchdog, "_arm", lambda: None)

    pass_time(watchdog, 100)

    assert [record.message for record in caplog.records] == [
        "no answer from the database for the length of a lease; connecting anew"
    ]
    assert reasons == []
