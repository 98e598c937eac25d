"""A child that is stopped or silent, with time in the test's hand."""

from dataclasses import dataclass, field

import pytest

from worker import supervisor
from worker.supervisor import FrozenChild


@dataclass
class Frozen:
    """A child and a clock."""

    pid: int = 7
    stopped: bool = False
    signs_of_life: int = 0
    now: float = 0.0
    ended_by: list[str] = field(default_factory=list)

    def is_stopped(self) -> bool:
        return self.stopped

    def abort(self) -> None:
        self.ended_by.append("abort")

    def kill(self) -> None:
        self.ended_by.append("kill")

    def pass_time(self, watch: FrozenChild, seconds: float, *, lives: bool = False) -> None:
        """Look twice a second."""
        for _ in range(int(2 * seconds)):
            self.now += 0.5
            self.signs_of_life += lives
            watch.look()


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Frozen:
    child = Frozen()
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: child.now)
    return child


def watch_of(child: Frozen) -> FrozenChild:
    return FrozenChild(child, lease_s=10, hang_s=30)  # type: ignore[arg-type]  # what it asks of a child


def test_a_child_that_stays_stopped_for_two_leases_is_killed(child: Frozen) -> None:
    watch = watch_of(child)
    child.stopped = True

    child.pass_time(watch, 20)
    assert not child.ended_by
    child.pass_time(watch, 1)
    assert "kill" in child.ended_by


def test_a_child_that_is_let_go_on_in_time_lives(child: Frozen) -> None:
    watch = watch_of(child)
    for _ in range(5):
        child.stopped = True
        child.pass_time(watch, 19)
        child.stopped = False
        child.pass_time(watch, 1, lives=True)

    assert not child.ended_by


def test_the_time_in_which_the_parent_was_suspended_does_not_count(child: Frozen) -> None:
    watch = watch_of(child)
    child.stopped = True
    child.pass_time(watch, 5)
    child.now += 3600
    child.pass_time(watch, 13)

    assert not child.ended_by


def test_a_child_without_signs_of_life_prints_where_it_is_and_is_killed(child: Frozen) -> None:
    watch = watch_of(child)
    child.pass_time(watch, 60)
    assert not child.ended_by  # it has given none yet: it loads its modules

    child.pass_time(watch, 60, lives=True)
    child.pass_time(watch, 30)
    assert not child.ended_by
    child.pass_time(watch, 1)
    assert child.ended_by == ["abort"]
    child.pass_time(watch, 5)
    assert "kill" in child.ended_by
