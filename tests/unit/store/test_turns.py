import threading
import time

from jobs.store.connection.turns import Turns

LONG_S = 10.0


def wait_until_waiting(turns: Turns, number: int) -> None:
    while len(turns._waiting) < number:
        time.sleep(0.001)


def test_turns_come_in_the_order_in_which_they_were_asked_for() -> None:
    turns, order = Turns(), list[int]()
    assert turns.take(0)

    def ask(number: int) -> None:
        assert turns.take(LONG_S)
        order.append(number)
        turns.give()

    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=ask, args=(number,)))
        threads[-1].start()
        wait_until_waiting(turns, number + 1)
    turns.give()
    for thread in threads:
        thread.join()

    assert order == [0, 1, 2, 3, 4]
    assert turns.take(0)


def test_who_has_waited_long_enough_goes_and_holds_up_nobody() -> None:
    turns = Turns()
    assert turns.take(0)

    assert not turns.take(0.01)

    turns.give()
    assert turns.take(0)


def test_who_gives_a_turn_and_asks_again_comes_after_those_who_wait() -> None:
    turns, order = Turns(), list[str]()
    assert turns.take(0)

    def ask() -> None:
        assert turns.take(LONG_S)
        order.append("patient")
        turns.give()

    patient = threading.Thread(target=ask)
    patient.start()
    wait_until_waiting(turns, 1)
    turns.give()
    assert turns.take(LONG_S)
    order.append("again")
    turns.give()
    patient.join()

    assert order == ["patient", "again"]
