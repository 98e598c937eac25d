import threading
import time

from jobs.store.connection.fair_lock import FairLock

LONG_S = 10.0


def wait_until_waiting(lock: FairLock, number: int) -> None:
    while len(lock._waiting) < number:
        time.sleep(0.001)


def test_threads_acquire_the_lock_in_the_order_of_their_requests() -> None:
    lock, order = FairLock(), list[int]()
    assert lock.acquire(0)

    def ask(number: int) -> None:
        assert lock.acquire(LONG_S)
        order.append(number)
        lock.release()

    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=ask, args=(number,)))
        threads[-1].start()
        wait_until_waiting(lock, number + 1)
    lock.release()
    for thread in threads:
        thread.join()

    assert order == [0, 1, 2, 3, 4]
    assert lock.acquire(0)


def test_an_acquire_that_timed_out_delays_no_other_thread() -> None:
    lock = FairLock()
    assert lock.acquire(0)

    assert not lock.acquire(0.01)

    lock.release()
    assert lock.acquire(0)


def test_a_thread_that_releases_and_acquires_again_queues_behind_waiting_threads() -> None:
    lock, order = FairLock(), list[str]()
    assert lock.acquire(0)

    def ask() -> None:
        assert lock.acquire(LONG_S)
        order.append("patient")
        lock.release()

    patient = threading.Thread(target=ask)
    patient.start()
    wait_until_waiting(lock, 1)
    lock.release()
    assert lock.acquire(LONG_S)
    order.append("again")
    lock.release()
    patient.join()

    assert order == ["patient", "again"]
