"""
Which calls of a causal graph give each row what it gets alone and whole.

No graph says so. Some read their padding, some refuse rows behind a past (GroupQueryAttention does: "batch_size must be
1 when sequence_length > 1 and past context is given"), some scale activations over the whole batch. So it is tried, on
a few tokens, when a model is opened.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.engine.causal.exported_graph import ExportedCausalGraph

_LENGTH = 6  # tokens of a row that is tried
# How far logits may be from those of the row alone, as a part of their spread.
_TOLERANCES = {np.dtype(np.float32): 1e-3, np.dtype(np.float16): 1e-2}

_Ids = Sequence[int]
_Rows = list[NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """True: tried, and right."""

    batches: bool  # several rows of one length
    pads: bool  # shorter rows among them, filled up on the right
    extends: bool  # several tokens behind a past
    extends_batches: bool  # the same for several rows; shorter ones among them, where it `pads`


def probe_capabilities(graph: ExportedCausalGraph, max_positions: int) -> Capabilities:
    """Run short rows in every way; raise ModelError where the graph runs in none."""
    size = min(max_positions, _LENGTH)
    vocab_size = graph.layout.vocab_size
    # Two primes: ids far apart, in a vocabulary of any size.
    one, other = ([(factor * place + 1) % vocab_size for place in range(size)] for factor in (7919, 104_729))
    short, cut = other[: size // 2], size // 2
    try:
        alone, alone_other, alone_short = (_logits(graph, [row])[0] for row in (one, other, short or other))
    except Exception as error:  # onnxruntime has no common base class for what a graph refuses
        raise ModelError(f"{graph.file} cannot run its first step: {str(error).strip()[:300]}") from error
    limit = _TOLERANCES[graph.layout.logits_dtype] * float(np.ptp(np.concatenate((alone, alone_other))))

    def gives(attempt: Callable[[], _Rows], *expected: NDArray[np.float32]) -> bool:
        try:
            found = attempt()
        except Exception:  # as above; here a refusal is an answer
            return False
        return all(np.allclose(row, right, rtol=0, atol=limit) for row, right in zip(found, expected, strict=True))

    batches = gives(lambda: _logits(graph, [one, other]), alone, alone_other)
    pads = batches and bool(short) and gives(lambda: _logits(graph, [one, short]), alone, alone_short)
    extends = batches_behind = False
    if graph.layout.cache and cut:
        ending = other[cut : size - 1 if pads else size]
        extends = gives(lambda: _behind(graph, one[:cut], [one[cut:]]), alone[cut:])
        batches_behind = batches and extends and gives(
            lambda: _behind(graph, one[:cut], [one[cut:], ending]),
            alone[cut:],
            _logits(graph, [one[:cut] + ending])[0][cut:],
        )  # fmt: skip
    return Capabilities(batches, pads, extends, batches_behind)


def _logits(graph: ExportedCausalGraph, rows: Sequence[_Ids], past: Sequence[NDArray[Any]] = ()) -> _Rows:
    found, _ = graph.call(rows, past, is_quiet=True)
    return [found[row, : len(ids)].astype(np.float32) for row, ids in enumerate(rows)]


def _behind(graph: ExportedCausalGraph, beginning: _Ids, endings: Sequence[_Ids]) -> _Rows:
    """Logits of rows behind one past."""
    _, past = graph.call([beginning], wants_logits=False, wants_present=True, is_quiet=True)
    return _logits(graph, endings, [np.repeat(part, len(endings), axis=0) for part in past])
