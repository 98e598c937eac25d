"""A stage in a process of its own that says how long it computed, and how many bytes were sent for it: what a call took
beyond that is transport.

Knows: how `worker.engine.causal.native.separate_stages` starts a stage and calls it. Does not know: what is measured.
"""

import os
import pickle
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from worker.engine.causal.native.separate_stages import RemoteLane, StageOpener
from worker.engine.causal.native.stage import SessionLane
from worker.engine.stages.stage_process import RemoteObject, StageProcess
from worker.graphs.precision import Precision
from worker.models.manifest import Manifest


class ClockedOpener(StageOpener):
    """Opens a stage whose lanes have a clock."""

    def open(self) -> "ClockedStage":  # type: ignore[override]  # the bench asks it for lanes alone
        return ClockedStage(super().open().new_lane)


class ClockedStage:
    """The first object of a stage's process."""

    def __init__(self, new_lane: Callable[[], SessionLane]) -> None:
        self._new_lane = new_lane

    def new_lane(self) -> "ClockedLane":
        return ClockedLane(self._new_lane())


class ClockedLane:
    """See `stage.StageLane`; in the stage's process."""

    def __init__(self, lane: SessionLane) -> None:
        self._lane = lane
        self._seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lane, name)

    def read_slots(self, *arguments: Any) -> Any:
        return self._clocked(self._lane.read_slots, arguments)

    def step(self, *arguments: Any) -> Any:
        return self._clocked(self._lane.step, arguments)

    def taken(self) -> float:
        """Seconds since this was asked the last time."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def _clocked(self, method: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        started = time.perf_counter()
        found = method(*arguments)
        self._seconds += time.perf_counter() - started
        return found


class CountedObject:
    """See `RemoteObject`; in the process that calls. It can count the bytes of what is sent in both directions."""

    def __init__(self, remote: RemoteObject) -> None:
        self._remote = remote
        self.buffer_stats = remote.buffer_stats
        self.counts = False
        self.num_bytes = 0

    def call(self, method: str, *arguments: Any) -> Any:
        found = self._remote.call(method, *arguments)
        if self.counts:
            self.num_bytes += _num_bytes(arguments) + _num_bytes(found)
        return found


def start_clocked(folder: Path, stack: ExitStack) -> list[CountedObject]:
    """Start the processes of a split model's stages; a lane's part of each. They end with `stack`."""
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[3])  # they import this module
    manifest = Manifest.read(folder)
    assert manifest.split is not None
    found = []
    for number, place in enumerate(manifest.split.stages):
        opener = ClockedOpener(folder, Precision(manifest.precision), 1, number, place.layers, place.device)
        process = StageProcess(f"stage {number}", opener, None)
        stack.callback(process.close)
        found.append(CountedObject(RemoteObject(process).make("new_lane")))
    return found


def remote_lanes(objects: Sequence[CountedObject]) -> list[RemoteLane]:
    """As the lanes of a model call them."""
    return [RemoteLane(one) for one in objects]  # type: ignore[arg-type]  # lanes only `call` them


def _num_bytes(value: Any) -> int:
    """Of a pickle and its arrays, as `shared_frames` sends them."""
    arrays: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    return len(head) + sum(array.raw().nbytes for array in arrays)
