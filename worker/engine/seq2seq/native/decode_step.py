"""
One step of a native decoder over all running rows, and the buffers of its outputs.

Knows: which session runs, and what is bound to it. Does not know: sentences, how a token is chosen.

Shapes: R rows · V ids of the head · D width.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.growing_buffer import GrowingBuffer
from worker.engine.runtime.host_arrays import bind_input, bind_output
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.greedy import Rescore
from worker.engine.search.logit_rules import Floats, Ids
from worker.engine.seq2seq.native.graphs import NativeSeq2SeqGraphs
from worker.engine.seq2seq.native.kv_slots import Slots


class DecodeStep:
    """One lane's decoder for one kind of search."""

    def __init__(self, graphs: NativeSeq2SeqGraphs, rules: GenerationConfig, *, exact: bool = False) -> None:
        """`exact`: give exact logits, also where a screened decoder would serve the rules."""
        self.rescore: Rescore | None = None  # finds the best ids where logits are approximate
        may_screen = rules.num_beams == 1 and rules.repetition_penalty == 1.0 and not exact
        screened = graphs.screened_decoder() if may_screen else None
        if screened is None:
            self._session = graphs.decoder(rules.num_beams)
        else:
            self._session, screen = screened
            self.rescore = lambda logits, scales, normalizer: screen.best(
                logits, scales, self._outputs["hidden"], normalizer
            )
        self._graphs = graphs
        self._binding = self._session.io_binding()
        self._ids: Ids = np.empty(0, np.int64)  # (R,)
        self._buffers: dict[str, GrowingBuffer] = {}  # by name of the output
        self._outputs: dict[str, NDArray[Any]] = {}  # of the running rows

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of the outputs. Reuse happens at every step and is not counted."""
        buffers = tuple(self._buffers.values())
        return BufferStats(sum(one.num_bytes for one in buffers), sum(one.allocations for one in buffers))

    def run(self, last_ids: Ids, slots: Slots, context: RunContext, step: int) -> tuple[Floats, Floats | None]:
        """Append one id (R,) to each row. Returns the logits of the next (R, V), and the factors of the rows (R,), or
        None; the caller may change them until the next step."""
        rows, past_length = len(last_ids), slots.longest
        if rows != len(self._ids):
            self._bind(rows)
        self._ids[:] = self._graphs.head.to_ids(last_ids)
        # At every step, because a GPU gets a copy when an input is bound.
        bind_input(self._binding, "ids", self._ids)
        slots.bind(self._binding)
        with context.measure("decode", step=step, rows=rows, tokens=rows, past_length=past_length):
            self._session.run_with_iobinding(self._binding)
        slots.advance()
        scales = self._outputs.get("scales")
        return np.asarray(self._outputs["logits"], np.float32), None if scales is None else scales[:, 0]

    def _bind(self, rows: int) -> None:
        self._ids = self._array("ids", (rows,), np.dtype(np.int64))
        for output in self._session.get_outputs():
            if output.name in ("logits", "scales", "hidden"):
                shape = rows, int(output.shape[1])
                array = self._array(output.name, shape, np.dtype(_DTYPES[output.type]))
                self._outputs[output.name] = array
                bind_output(self._binding, output.name, array)

    def _array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        if name not in self._buffers:
            self._buffers[name] = GrowingBuffer(dtype)
        return self._buffers[name].lay_out(shape)


_DTYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
