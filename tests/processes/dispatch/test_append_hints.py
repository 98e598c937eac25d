"""How often workers are woken for documents that are appended."""

import threading
import time

from jobs.dispatch.append_hints import AppendHints


def test_each_append_is_followed_by_hints_and_many_appends_by_few() -> None:
    asked: list[float] = []
    appended: list[float] = []
    sent = threading.Event()

    def send() -> None:
        asked.append(time.monotonic())
        sent.set()

    hints = AppendHints(send, every_s=0.1)
    for _ in range(200):
        appended.append(time.monotonic())
        hints.wake()
        time.sleep(0.002)
    sent.clear()
    hints.wake()

    assert sent.wait(10)
    assert asked[0] - appended[0] < 5  # at once
    assert asked[-1] > appended[-1]
    took = asked[-1] - appended[0]
    assert len(asked) <= took / 0.1 + 2
    hints.close()


def test_a_broker_that_fails_ends_nothing_and_a_closed_sender_sends_what_was_wanted() -> None:
    rounds = threading.Semaphore(0)

    def send() -> str:
        rounds.release()
        return "the broker does not answer"

    hints = AppendHints(send, every_s=0.01)
    for _ in range(3):
        hints.wake()
        assert rounds.acquire(timeout=10)
    hints.wake()
    hints.close()

    assert rounds.acquire(timeout=10)


def test_without_a_broker_nothing_is_sent_and_no_thread_is_started() -> None:
    before = threading.active_count()
    hints = AppendHints(None)
    hints.wake()
    hints.close()

    assert threading.active_count() == before
