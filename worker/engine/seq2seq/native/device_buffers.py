"""
Keys and values in a device's memory, and the graphs that copy them there.

Only row numbers pass through the host. The device may be the CPU: the same code then works on memory of the process,
which is how it is tested.

Shapes: R rows · M rows after a move · B sentences · S source length · L layers · N heads · C positions · H head size.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnxruntime import InferenceSession, IOBinding, OrtValue

from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.device import Device, Provider
from worker.engine.runtime.host_arrays import bind_input
from worker.engine.runtime.session import open_session
from worker.engine.search.logit_rules import Ids
from worker.engine.seq2seq.native.kv_slots import KVSlotShape
from worker.graphs.kv_copies import place_graph, select_graph, widen_graph


class DeviceBuffers:
    """Key and value of each layer: 2 L tensors (rows, N, C, H), each at the start of its own buffer."""

    def __init__(self, shape: KVSlotShape, device: Device) -> None:
        self.length = 0  # C
        self._allocations = 0
        self._shape = shape
        self._device = device
        self._buffers: list[OrtValue] = []
        self._size = 0  # of a buffer, in numbers

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of all tensors. Reuses are not counted."""
        return BufferStats(2 * self._shape.num_layers * self._size * self._shape.dtype.itemsize, self._allocations)

    def lay_out(self, rows: int, length: int) -> None:
        """Lay out `rows` rows of `length` positions, and allocate if necessary; the content is undefined."""
        self.length = length
        size = math.prod(self._tensor(rows))
        if size > self._size:
            self._allocations += 1
            self._buffers.clear()  # free the old ones first
            self._size = 0
            self._buffers = [self._new_buffer(size) for _ in range(2 * self._shape.num_layers)]
            self._size = size

    def names(self, pattern: str) -> list[str]:
        """The names of a decoder's inputs or outputs: `pattern` with the layer, and key or value."""
        return [pattern.format(index // 2, ("key", "value")[index % 2]) for index in range(2 * self._shape.num_layers)]

    def bind_inputs(self, binding: IOBinding, names: Sequence[str], rows: int) -> None:
        """Bind the first `rows` rows as inputs."""
        for name, buffer in zip(names, self._buffers, strict=True):
            binding.bind_input(name, *self._location, self._tensor(rows), buffer.data_ptr())

    def bind_outputs(self, binding: IOBinding, names: Sequence[str], rows: int, *, start: int = 0) -> None:
        """Bind rows from `start` on as outputs."""
        offset = math.prod(self._tensor(start)) * self._shape.dtype.itemsize
        for name, buffer in zip(names, self._buffers, strict=True):
            binding.bind_output(name, *self._location, self._tensor(rows), buffer.data_ptr() + offset)

    @property
    def _location(self) -> tuple[str, int, Any]:
        return self._device.kind, self._device.number, self._shape.dtype.type

    def _tensor(self, rows: int) -> tuple[int, ...]:
        return rows, self._shape.num_heads, self.length, self._shape.head_size

    def _new_buffer(self, size: int) -> OrtValue:
        return OrtValue.ortvalue_from_shape_and_type(
            [size], self._shape.dtype.type, self._device.kind, self._device.number
        )


class DeviceCopies:
    """The graphs of `worker.graphs.kv_copies`, open on a device. All lanes share them."""

    def __init__(self, shape: KVSlotShape, file: Path, *, threads: int, providers: Sequence[Provider]) -> None:
        """`file`: a graph of the model, which an error names if one of these graphs cannot be opened."""
        self._num_tensors = 2 * shape.num_layers
        sizes = self._num_tensors, shape.num_heads, shape.head_size, shape.dtype.type
        self._select, self._widen, self._place = (
            open_session(file, threads=threads, providers=providers, graph=make(*sizes))
            for make in (select_graph, widen_graph, place_graph)
        )

    def select(self, source: DeviceBuffers, num_rows: int, target: DeviceBuffers, rows: Ids) -> None:
        """Copy `rows`, which are among the first `num_rows` of `source`, to the start of `target`, of equal length."""
        binding = self._select.io_binding()
        rows = np.ascontiguousarray(rows)
        bind_input(binding, "rows", rows)
        source.bind_inputs(binding, self._names("from"), num_rows)
        target.bind_outputs(binding, self._names("to"), len(rows))
        _run(self._select, binding)

    def widen(self, source: DeviceBuffers | Sequence[NDArray[Any]], target: DeviceBuffers, num_rows: int) -> None:
        """Copy the first rows of `source`, or of arrays (R, N, C, H) on the host, to `target`, which is longer."""
        binding = self._widen.io_binding()
        if isinstance(source, DeviceBuffers):
            length = source.length
            source.bind_inputs(binding, self._names("from"), num_rows)
        else:
            length = source[0].shape[2]
            arrays = [np.ascontiguousarray(array) for array in source]  # they have to outlive the run
            for name, array in zip(self._names("from"), arrays, strict=True):
                bind_input(binding, name, array)
        pads = np.array([0] * 6 + [target.length - length, 0], np.int64)
        bind_input(binding, "pads", pads)
        target.bind_outputs(binding, self._names("to"), num_rows)
        _run(self._widen, binding)

    def place(self, cross: OrtValue | NDArray[Any], target: DeviceBuffers, start: int) -> None:
        """Copy the cross-attention keys and values of new sentences (B, S, 2 L, N, H) to `target`, from row `start`."""
        binding = self._place.io_binding()
        if isinstance(cross, OrtValue):
            count, length, *_ = cross.shape()
            binding.bind_ortvalue_input("cross", cross)
        else:
            count, length, *_ = cross.shape
            cross = np.ascontiguousarray(cross)
            bind_input(binding, "cross", cross)
        pads = np.array([0] * 8 + [target.length - length, 0], np.int64)
        bind_input(binding, "pads", pads)
        target.bind_outputs(binding, self._names("to"), count, start=start)
        _run(self._place, binding)

    def _names(self, side: str) -> list[str]:
        return [f"{side}.{index}" for index in range(self._num_tensors)]


def _run(session: InferenceSession, binding: IOBinding) -> None:
    binding.synchronize_inputs()
    session.run_with_iobinding(binding)
