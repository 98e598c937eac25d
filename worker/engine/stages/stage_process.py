"""
A process that holds a stage of a model, and objects in it that the lanes of this process call.

One call at a time: while a lane's call is in this process, another lane's may be in the process of the next stage.
"""

import contextlib
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jobs.errors import ModelError, StageDied
from jobs.system.process import how_it_ended
from jobs.text.formatting import size
from jobs.text.log_lines import JSON, TEXT, is_json_log
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.out_of_memory import is_out_of_memory
from worker.engine.stages.served_objects import ObjectCall, Opener
from worker.engine.stages.shared_frames import SharedFrames, shared_file

_END_S = 2.0  # the time that a process gets to end by itself


class StageProcess:
    """One process. It ends with the last object that refers to it, and when this process ends, however that happens."""

    def __init__(self, name: str, opener: Opener, memory_limit: int | None) -> None:
        """Start the process, and let it open its stage. `name`: for messages. `memory_limit`: bytes that it may
        allocate, private pages of mapped files included; None: no limit.

        Raises what opening the stage raises, ModelError where it needs more memory, StageDied where the process ended.
        """
        self._name = name
        self._lock = threading.Lock()
        self.forgotten: deque[int] = deque()  # numbers of objects that this process no longer refers to
        ours, theirs = socket.socketpair()
        to_stage, from_stage = shared_file(), shared_file()
        given = [theirs.fileno(), to_stage, from_stage]
        # Only this process holds the other end of the child's standard input: the pipe ends when this process does.
        log_format = JSON if is_json_log() else TEXT
        command = [sys.executable, "-P", "-m", "worker.engine.stages.stage_program", log_format, *map(str, given)]
        self._frames = SharedFrames(ours, to_stage, from_stage)  # closes its descriptors, also where nothing starts
        with theirs:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=given)
        try:
            self._exchange((opener, memory_limit))
        except BaseException as error:
            self.close()
            if memory_limit is not None and isinstance(error, Exception) and self._lacked_memory(error):
                raise ModelError(
                    f"{name} does not fit into the {size(memory_limit)} that its process may allocate: split the model "
                    "into more stages, or raise --memory"
                ) from error
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def call(self, request: ObjectCall) -> tuple[Any, BufferStats]:
        """Call an object in the process: the result, and the memory of its buffers. Raises the error of the call, and
        StageDied where the process ended."""
        with self._lock:
            forgotten = tuple(self.forgotten.popleft() for _ in range(len(self.forgotten)))
            answer: tuple[Any, BufferStats] = self._exchange((request, forgotten))
            return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._frames.close()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def __del__(self) -> None:
        if hasattr(self, "_process"):  # it was started
            self.close()

    def _lacked_memory(self, error: Exception) -> bool:
        """Whether opening under a limit failed for want of memory. C++ calls abort() where an allocation fails while an
        error is handled, and reads address 0 where one is not checked: onnxruntime does both now and then."""
        died = isinstance(error, StageDied) and self._process.returncode in (-signal.SIGABRT, -signal.SIGSEGV)
        return died or is_out_of_memory(error)

    def _exchange(self, frame: Any) -> Any:
        try:
            self._frames.send(frame)
            answer = self._frames.receive(copies=True)
        except (EOFError, OSError):
            raise self._death() from None
        except BaseException:  # the answer to this call may still come, and would be taken for the next one
            self._process.kill()
            raise
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _death(self) -> StageDied:
        """How the process ended: it has closed its end of the connection."""
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return StageDied(f"the process of {self._name} {how_it_ended(code)}")


class StageProcesses:
    """The processes of a model's stages, which start when one is first needed."""

    def __init__(self, model: str, openers: Sequence[Opener], memory_limit: int | None) -> None:
        """`openers`: of each stage, in their order."""
        self._model = model
        self._openers = openers
        self._memory_limit = memory_limit
        self._processes: list[StageProcess] = []
        self._lock = threading.Lock()

    @property
    def are_running(self) -> bool:
        """False once one has ended."""
        return all(process.is_running for process in list(self._processes))

    @property
    def pids(self) -> list[int]:
        """The processes that run now, by stage."""
        return [process.pid for process in self._processes]

    def started(self) -> list[StageProcess]:
        """The processes, which this starts side by side the first time. Raises the errors of opening a stage."""
        with self._lock:
            if not self._processes:
                with ThreadPoolExecutor(len(self._openers)) as pool:
                    self._processes = list(pool.map(self._start, range(len(self._openers))))
            return self._processes

    def _start(self, number: int) -> StageProcess:
        return StageProcess(f"stage {number} of model {self._model}", self._openers[number], self._memory_limit)


class RemoteObject:
    """An object in the process of a stage."""

    def __init__(self, process: StageProcess, number: int = 0) -> None:
        """`number`: the first object, which the opener made, is 0."""
        self._process = process
        self._number = number
        self.buffer_stats = BufferStats()  # as of the last call

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method. Raises the errors of the method, and StageDied."""
        found, self.buffer_stats = self._process.call(ObjectCall(self._number, method, arguments))
        return found

    def make(self, method: str, *arguments: Any) -> "RemoteObject":
        """Call a method, whose result stays in the process as a new object."""
        number, _ = self._process.call(ObjectCall(self._number, method, arguments, keeps=True))
        return RemoteObject(self._process, number)

    def __del__(self) -> None:
        if self._number:
            self._process.forgotten.append(self._number)
