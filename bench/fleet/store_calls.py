"""How long each call of a worker into the store takes, as the worker's own code makes it.

Knows: names of functions. Does not know: what they do.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jobs.errors import KvjobsError
from jobs.store import worker_registry
from jobs.store.queue import leases
from worker import leased_shard, stored_memory, supervisor

# The module whose name is looked up at each call, the function, and the name in the report.
CALLS = (
    (leases, "lease", "lease"),
    (worker_registry, "record_heartbeat", "heartbeat"),
    (stored_memory, "recall", "recall"),
    (leased_shard, "record", "record"),
    (supervisor, "reap", "reap"),
)
LOOK = "look"  # a call of `lease` that found nothing


class StoreCalls:
    """The calls that ended in a window of time. Threads share it."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.errors: Counter[str] = Counter()
        self.documents = 0  # of the batches that were recorded
        self._window = (float("inf"), float("inf"))
        self._lock = threading.Lock()

    def count_between(self, begin: float, end: float) -> None:
        """Count calls that end within these times of `time.monotonic`."""
        self._window = (begin, end)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Time the calls of every worker of this process within the context."""
        originals = [(module, function, getattr(module, function)) for module, function, _ in CALLS]
        for module, function, name in CALLS:
            setattr(module, function, self._timed(getattr(module, function), name))
        try:
            yield
        finally:
            for module, function, original in originals:
                setattr(module, function, original)

    def _timed(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            begin = time.monotonic()
            try:
                found = function(*args, **kwargs)
            except KvjobsError as error:
                self._count_error(name, error)
                raise
            self._count(LOOK if name == "lease" and found is None else name, begin, args)
            return found

        return call

    def _count(self, name: str, begin: float, args: tuple[Any, ...]) -> None:
        now = time.monotonic()
        with self._lock:
            if self._window[0] <= now < self._window[1]:
                self.seconds[name].append(now - begin)
                if name == "record":
                    _database, work, index, *_ = args
                    self.documents += len(work.batches[index])

    def _count_error(self, name: str, error: KvjobsError) -> None:
        with self._lock:
            if self._window[0] <= time.monotonic() < self._window[1]:
                self.errors[f"{name}: {type(error).__name__}"] += 1
