"""A child that is stopped, or gives no sign of life, is ended by its parent: whatever it has locked stays locked.

Time is counted in looks of the parent, so a parent that was suspended itself takes no child for frozen meanwhile.
"""

import logging
import time

from worker.process.child_handle import Child

log = logging.getLogger(__name__)

LONGEST_LOOK_S = 1.0  # what counts of the time between two looks
TOLD_AFTER_S = 1.0
TRACEBACK_S = 5.0  # for a process that prints where it hangs


class FrozenChild:
    """Watches the child of a worker, from its start to its end."""

    def __init__(self, child: Child, lease_s: float, hang_s: float) -> None:
        self._child = child
        # After one lease others have its shards; a process that somebody woke after two would find nothing left to do.
        self._stopped_at_most_s = 2 * lease_s
        self._silent_at_most_s = max(hang_s, 2 * lease_s)
        self._stopped_s = self._silent_s = 0.0
        self._heard = 0  # signs of life; before the first, the process loads its modules
        self._looked_at = time.monotonic()

    def look(self) -> None:
        """End the child if it is frozen; to be called several times a second."""
        now = time.monotonic()
        passed_s, self._looked_at = min(now - self._looked_at, LONGEST_LOOK_S), now
        if self._child.is_stopped():
            self._was_stopped(passed_s)
            return
        self._stopped_s = 0.0
        heard, self._heard = self._heard, self._child.signs_of_life
        if heard and heard == self._heard:
            self._was_silent(passed_s)
        else:
            self._silent_s = 0.0

    def _was_stopped(self, passed_s: float) -> None:
        before, self._stopped_s = self._stopped_s, self._stopped_s + passed_s
        if before <= TOLD_AFTER_S < self._stopped_s:
            log.warning(
                "the worker process %s is stopped by a signal; it is ended after %.0f s unless you let it go on: "
                "kill -CONT %s",
                self._child.pid, self._stopped_at_most_s, self._child.pid,
            )  # fmt: skip
        if self._stopped_s > self._stopped_at_most_s:
            log.warning("the worker process %s stayed stopped; ending it", self._child.pid)
            self._child.kill()

    def _was_silent(self, passed_s: float) -> None:
        before, self._silent_s = self._silent_s, self._silent_s + passed_s
        if before <= self._silent_at_most_s < self._silent_s:
            log.warning("no sign of life from the worker process %s for %.0f s; ending it", self._child.pid, before)
            self._child.abort()
        if self._silent_s > self._silent_at_most_s + TRACEBACK_S:
            self._child.kill()
