"""How fast a lane has translated for a job, and how many of its batches it computes as one.

Whatever is computed when a process dies is computed again, so a batch should last seconds. But rows run side by side,
and towards the end of a batch fewer and fewer of them; and each batch is a transaction.
"""

from collections import OrderedDict

from jobs.spec import JobSpec
from jobs.store.queue.batches import MAX_BATCHES_AT_ONCE, MAX_TOKENS

BATCH_S = 4.0  # that a batch may last
MAX_JOBS = 16  # that are remembered


class Pace:
    """One lane's seconds for a token, by what a job's results depend on."""

    def __init__(self) -> None:
        self._seconds: OrderedDict[bytes, float] = OrderedDict()

    def measured(self, spec: JobSpec, tokens: int, seconds: float) -> None:
        """Note what a batch took. The first one warms buffers up, so faster ones count soon; a slower one counts at
        once."""
        if not tokens:
            return
        key, new = spec.memory_digest(), seconds / tokens
        self._seconds[key] = max(new, self._seconds.pop(key, new) / 2)
        while len(self._seconds) > MAX_JOBS:
            self._seconds.popitem(last=False)

    def batches_at_once(self, spec: JobSpec) -> int:
        """How many batches last no longer than `BATCH_S` together; at least 1."""
        seconds = self._seconds.get(spec.memory_digest())
        if seconds is None:
            return 1
        batch_s = max(seconds * MAX_TOKENS, BATCH_S / MAX_BATCHES_AT_ONCE)
        return max(1, int(BATCH_S / batch_s))
