"""The time that a database may spend on one query."""

import time


class TimeLimit:
    """A stopwatch with a limit: it runs inside `with`. Other threads may read it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._spent_s = 0.0
        self._started: float | None = None

    def __enter__(self) -> None:
        self._started = time.monotonic()

    def __exit__(self, *_error: object) -> None:
        if self._started is not None:
            self._spent_s += time.monotonic() - self._started
        self._started = None

    @property
    def left_s(self) -> float:
        started = self._started
        running_s = 0.0 if started is None else time.monotonic() - started
        return self.seconds - self._spent_s - running_s

    def is_over(self) -> bool:
        return self.left_s < 0
