"""What wakes the lanes that rest, and knows when all of them rest again. Knows neither who rings nor what for."""

import threading
from collections.abc import Callable


def _nobody_asked(_rung: int) -> None:
    pass


class Wakeup:
    """Lanes share it. A ring is never lost: a lane says how many it had heard when it last looked for work, and
    where there was another since, its rest is over before it begins."""

    def __init__(self, lanes: int = 1, tell: Callable[[int], None] = _nobody_asked) -> None:
        """`tell` gets the number of rings so far whenever all lanes have looked since the last one and rest."""
        self._lanes = lanes
        self._tell = tell
        self._changed = threading.Condition()
        self._rung = 0
        self._resting = 0  # lanes that have looked since the last ring
        self._told = -1
        self._is_closed = False

    @property
    def rung(self) -> int:
        """Rings so far: to be asked before looking for work."""
        return self._rung

    def ring(self, times: int = 1) -> None:
        """Wake all lanes that rest."""
        with self._changed:
            self._rung += times
            self._resting = 0
            self._changed.notify_all()

    def close(self) -> None:
        """No more rest for anybody."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Wait, whoever rings; not for long where the bell is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed, seconds)

    def rest(self, seconds: float, heard: int) -> None:
        """Wait for the next ring after `heard`, for so many seconds at most."""
        with self._changed:
            if heard == self._rung:
                self._resting += 1
                if self._resting == self._lanes and self._told != heard:
                    self._told = heard
                    self._tell(heard)
            self._changed.wait_for(lambda: self._is_closed or self._rung != heard, seconds)
            if heard == self._rung:
                self._resting -= 1
