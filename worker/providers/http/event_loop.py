"""The event loop of a process's HTTP clients, in a thread of its own: lanes are threads, requests are coroutines.

A coroutine can be cancelled at any point, so a deadline holds for a whole request, even where a server sends a byte a
second, and a worker that is to stop does not wait for an answer.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from jobs.errors import Stopped
from worker.engine.runtime.run_context import RunContext

T = TypeVar("T")

LOOK_EVERY_S = 0.1  # whether to stop; also a sign of life for the watchdog


class EventLoop:
    """Starts at the first call; ends with `close`, else with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T], run: RunContext) -> T:
        """The result of a coroutine. Raises what it raises, and Stopped where the run is to end."""
        future = asyncio.run_coroutine_threadsafe(work, self._started())
        while True:
            try:
                return future.result(timeout=LOOK_EVERY_S)
            except concurrent.futures.TimeoutError:
                if future.done():  # the coroutine itself raised a TimeoutError
                    raise
                if run.should_stop():
                    future.cancel()
                    raise Stopped("stopped while waiting for a server") from None

    def close(self) -> None:
        """End the thread. Nothing may be running."""
        with self._lock:
            if self._loop is not None and self._thread is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()
            self._loop = self._thread = None

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="http", daemon=True)
                self._thread.start()
            return self._loop
