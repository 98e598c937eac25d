"""
A stage of a native decoder, and what one lane keeps for it. An unsplit decoder is one stage.

The first stage reads ids, the others the residual of the stage before; the last gives logits, the others the residual.
Each numbers its layers from 0 and has the keys and values of these alone, past and cross, so that a stage may be on a
device or in a process of its own.

Shapes: R rows · D width · V ids of the head · m sentences · L layers of the stage.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.growing_buffer import GrowingBuffer
from worker.engine.runtime.host_arrays import bind_input, bind_output
from worker.engine.search.logit_rules import Ids
from worker.engine.seq2seq.native.decoder_graphs import DecoderGraphs, StepKind
from worker.engine.seq2seq.native.kv_slots import Slots

IDS, RESIDUAL, NEXT_RESIDUAL = "ids", "residual", "next_residual"
_DTYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}

Outputs = Mapping[str, NDArray[Any]]  # next_residual (R, D); of the last stage logits (R, V), scales and hidden if any


class DecoderLane(Protocol):
    """One lane's part of a stage: slots, and steps through them. The methods are those of `kv_slots.Slots`."""

    @property
    def buffer_stats(self) -> BufferStats: ...
    def begin(self, sentences: int, beams: int, positions: int, source_length: int) -> None: ...
    def admit(self, cross: Any) -> None: ...
    def fill(self, present: Sequence[NDArray[Any]]) -> None: ...
    def select(self, rows: Ids) -> None: ...
    def step(self, kind: StepKind, x: NDArray[Any]) -> Outputs:
        """Append ids (R,), or the residual (R, D), to each row. The caller may change the outputs until the next
        step, which overwrites them."""


class DecoderStage(Protocol):
    """A stage that lanes share."""

    def new_lane(self) -> DecoderLane: ...
    def run(self, kind: str, names: Sequence[str], feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """See `DecoderGraphs.run`."""

    def num_target_ids(self) -> int:
        """See `DecoderGraphs.num_target_ids`."""


class SessionDecoder:
    """A stage in this process."""

    def __init__(self, graphs: DecoderGraphs) -> None:
        self._graphs = graphs
        self.run = graphs.run
        self.num_target_ids = graphs.num_target_ids

    def new_lane(self) -> "SessionDecoderLane":
        return SessionDecoderLane(self._graphs)


class SessionDecoderLane:
    """See `DecoderLane`."""

    def __init__(self, graphs: DecoderGraphs) -> None:
        self._graphs = graphs
        self._slots = graphs.new_slots()
        self._step: tuple[StepKind, _BoundStep] | None = None  # the last kind

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of the slots and of a step's outputs."""
        return self._slots.buffer_stats + (self._step[1].buffer_stats if self._step else BufferStats())

    def begin(self, sentences: int, beams: int, positions: int, source_length: int) -> None:
        self._slots.begin(sentences, beams, positions, source_length)

    def admit(self, cross: Any) -> None:
        self._slots.admit(cross)

    def fill(self, present: Sequence[NDArray[Any]]) -> None:
        self._slots.fill(present)

    def select(self, rows: Ids) -> None:
        self._slots.select(rows)

    def step(self, kind: StepKind, x: NDArray[Any]) -> Outputs:
        if self._step is None or self._step[0] != kind:
            self._step = kind, _BoundStep(self._graphs.decoder(kind))
        return self._step[1].run(x, self._slots)


class _BoundStep:
    """A decoder's session, and the buffers of its input and outputs."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._binding = session.io_binding()
        self._input = next(one.name for one in session.get_inputs() if one.name in (IDS, RESIDUAL))
        self._x: NDArray[Any] = np.empty((0,), np.int64)
        self._buffers: dict[str, GrowingBuffer] = {}  # by name
        self._outputs: dict[str, NDArray[Any]] = {}  # of the running rows

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of input and outputs. Reuse happens at every step and is not counted."""
        buffers = tuple(self._buffers.values())
        return BufferStats(sum(one.num_bytes for one in buffers), sum(one.allocations for one in buffers))

    def run(self, x: NDArray[Any], slots: Slots) -> Outputs:
        if x.shape != self._x.shape:
            self._bind(x)
        self._x[:] = x
        # At every step, because a GPU gets a copy when an input is bound.
        bind_input(self._binding, self._input, self._x)
        slots.bind(self._binding)
        self._session.run_with_iobinding(self._binding)
        slots.advance()
        return self._outputs

    def _bind(self, x: NDArray[Any]) -> None:
        """Bind the outputs for so many rows."""
        self._x = self._array(self._input, x.shape, x.dtype)
        for output in self._session.get_outputs():
            if output.name in ("logits", "scales", "hidden", NEXT_RESIDUAL):
                shape = len(x), int(output.shape[1])
                array = self._array(output.name, shape, np.dtype(_DTYPES[output.type]))
                self._outputs[output.name] = array
                bind_output(self._binding, output.name, array)

    def _array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        if name not in self._buffers:
            self._buffers[name] = GrowingBuffer(dtype)
        return self._buffers[name].lay_out(shape)
