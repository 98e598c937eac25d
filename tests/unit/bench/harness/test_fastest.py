"""An engine's best setting is the one with the fastest run, however the machine's load changes meanwhile."""

from bench.harness.fastest import fastest


class Machine:
    """A clock that a run moves on."""

    def __init__(self, seconds: dict[str, list[float]]) -> None:
        self.now = 0.0
        self.ran: list[str] = []
        self._seconds = seconds

    def run(self, setting: str) -> None:
        self.now += self._seconds[setting][self.ran.count(setting)]
        self.ran.append(setting)

    def clock(self) -> float:
        return self.now


def test_a_slow_first_run_does_not_count_against_a_setting():
    machine = Machine({"8 rows": [3.0, 3.0], "32 rows": [9.0, 2.0]})

    assert fastest(["8 rows", "32 rows"], machine.run, machine.clock) == "32 rows"
    assert machine.ran == ["8 rows", "32 rows", "8 rows", "32 rows"]


def test_short_runs_are_repeated():
    machine = Machine({"8 rows": [0.2] * 10, "32 rows": [0.3] * 3 + [0.1] * 7})

    assert fastest(["8 rows", "32 rows"], machine.run, machine.clock) == "32 rows"


def test_long_runs_are_not_repeated():
    machine = Machine({"8 rows": [11.0], "32 rows": [10.0]})

    assert fastest(["8 rows", "32 rows"], machine.run, machine.clock) == "32 rows"


def test_a_single_setting_is_not_tried():
    machine = Machine({})

    assert fastest(["only"], machine.run, machine.clock) == "only"
    assert machine.ran == []
