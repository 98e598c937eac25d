"""
A stage of a native decoder, and what one lane keeps for it. An unsplit decoder is one stage.

The first stage reads ids, the others the residual of the stage before; the last gives logits, the others the residual.
Each numbers its layers from 0 and has the keys and values of these alone, past and cross, so that a stage may be on a
device or in a process of its own.

Shapes: R rows · D width · V ids of the head · m sentences · L layers of the stage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from onnxruntime import IOBinding

from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.host_arrays import GrowingBuffer, bind_input, bind_output
from worker.engine.search.logit_rules import Ids
from worker.engine.seq2seq.native.decoder_graphs import DecoderGraphs, StepKind
from worker.engine.seq2seq.native.kv_slots import Slots

IDS, RESIDUAL, NEXT_RESIDUAL = "ids", "residual", "next_residual"
_DTYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}

# next_residual (R, D); of the last stage logits (R, V), scales, hidden and cross_queries if any
Outputs = Mapping[str, NDArray[Any]]


class DecoderLane(Protocol):
    """One lane's part of a stage: its slots, moved as `kv_slots.Slots` describes, and the steps through them."""

    @property
    def buffer_stats(self) -> BufferStats: ...
    def allocate(self, sentences: int, beams: int, positions: int, source_length: int) -> None: ...
    def append_sources(self, cross: Any) -> None: ...
    def fill(self, present: Sequence[NDArray[Any]]) -> None: ...
    def select(self, rows: Ids) -> None: ...
    def step(self, kind: StepKind, x: NDArray[Any]) -> Outputs:
        """Append ids (R,), or the residual (R, D), to each row. The caller may change the outputs until the next
        step, which overwrites them."""


class DecoderStage(Protocol):
    """A stage that lanes share."""

    def new_lane(self) -> DecoderLane: ...
    def run(self, kind: str, names: Sequence[str], feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Run the graph `kind` without a cache; as `DecoderGraphs.run`."""

    def num_target_ids(self) -> int:
        """V: how many ids the head has; for the last stage only."""


class SessionDecoder:
    """A stage in this process."""

    def __init__(self, graphs: DecoderGraphs) -> None:
        self._graphs = graphs
        self.run = graphs.run
        self.num_target_ids = graphs.num_target_ids

    def new_lane(self) -> "SessionDecoderLane":
        return SessionDecoderLane(self._graphs)


class SessionDecoderLane:
    """A `DecoderLane` whose stage is a session of this process."""

    def __init__(self, graphs: DecoderGraphs) -> None:
        self._graphs = graphs
        self._slots = graphs.new_slots()
        self._step: tuple[StepKind, _BoundStep] | None = None  # the last kind

    @property
    def buffer_stats(self) -> BufferStats:
        return self._slots.buffer_stats + (self._step[1].buffer_stats if self._step else BufferStats())

    def allocate(self, sentences: int, beams: int, positions: int, source_length: int) -> None:
        self._slots.allocate(sentences, beams, positions, source_length)

    def append_sources(self, cross: Any) -> None:
        self._slots.append(cross)

    def fill(self, present: Sequence[NDArray[Any]]) -> None:
        self._slots.fill(present)

    def select(self, rows: Ids) -> None:
        self._slots.select(rows)

    def step(self, kind: StepKind, x: NDArray[Any]) -> Outputs:
        if self._step is None or self._step[0] != kind:
            self._step = kind, _BoundStep(self._graphs.decoder(kind))
        return self._step[1].run(x, self._slots)


class _BoundStep:
    """A decoder's session, the buffers of its input and outputs, and a binding for each number of rows.

    Bindings are kept, because the number of rows changes at most steps and soon comes back: to bind a decoder of three
    layers takes 0.3 ms, and a step of it 3.1 (D 128, 64 rows, AMD EPYC Zen 3, onnxruntime 1.32).
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._input = next(node.name for node in session.get_inputs() if node.name in (IDS, RESIDUAL))
        self._given = {
            node.name: (int(node.shape[1]), np.dtype(_DTYPES[node.type]))
            for node in session.get_outputs()
            if node.name in ("logits", "scales", "hidden", "cross_queries", NEXT_RESIDUAL)
        }  # width and type of each output
        self._buffers: dict[str, GrowingBuffer] = {}  # by name
        self._bound: dict[int, _BoundRows] = {}  # by the number of rows

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of input and outputs. Reuse happens at every step and is not counted."""
        buffers = tuple(self._buffers.values())
        return BufferStats(sum(buffer.num_bytes for buffer in buffers), sum(buffer.allocations for buffer in buffers))

    def run(self, x: NDArray[Any], slots: Slots) -> Outputs:
        bound = self._bound.get(len(x)) or self._bind(x)
        bound.x[:] = x
        # At every step, because a GPU gets a copy when an input is bound.
        bind_input(bound.binding, self._input, bound.x)
        slots.bind(bound.binding)
        self._session.run_with_iobinding(bound.binding)
        slots.advance()
        return bound.outputs

    def _bind(self, x: NDArray[Any]) -> "_BoundRows":
        """A binding for as many rows as `x` has, with the outputs bound to it."""
        rows = len(x)
        if rows > max(self._bound, default=0):
            self._bound.clear()  # the buffers have to grow, and these would keep the memory
        outputs = {name: self._array(name, (rows, width), dtype) for name, (width, dtype) in self._given.items()}
        bound = _BoundRows(self._session.io_binding(), self._array(self._input, x.shape, x.dtype), outputs)
        for name, array in outputs.items():
            bind_output(bound.binding, name, array)
        self._bound[rows] = bound
        return bound

    def _array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        if name not in self._buffers:
            self._buffers[name] = GrowingBuffer(dtype)
        return self._buffers[name].lay_out(shape)


@dataclass(frozen=True, slots=True)
class _BoundRows:
    """The binding for one number of rows R."""

    binding: IOBinding
    x: NDArray[Any]  # ids (R,), or the residual (R, D)
    outputs: Outputs
