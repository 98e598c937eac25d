"""
Which calls of an exported causal graph give a row the same logits as the row alone and whole.

No graph declares this. Some attend to padding, some refuse several rows after a past (GroupQueryAttention does:
"batch_size must be 1 when sequence_length > 1 and past context is given"), some scale activations over the whole batch.
So opening a model tries each kind of call on a few tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.engine.causal.exported.broadcast_past import padded_pasts
from worker.engine.causal.exported.graph import ExportedCausalGraph

_LENGTH = 6  # tokens of a row
# The tolerance: the difference from the logits of the row alone, as a part of the range of all logits.
_TOLERANCES = {np.dtype(np.float32): 1e-3, np.dtype(np.float16): 1e-2}

_Rows = list[NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The kinds of calls that the graph computes correctly: True if such a call was tried and its logits were right."""

    batches: bool  # several rows of one length
    pads: bool  # with shorter rows among them, padded on the right
    extends: bool  # several tokens after a past
    extends_batches: bool  # several tokens after a past in each of several rows, some shorter if it `pads`
    steps: bool  # one token in each of several rows, after pasts of one length
    skips_padding: bool  # as `steps`, with some shorter pasts, padded on the left and masked there


def probe_capabilities(graph: ExportedCausalGraph, max_positions: int) -> Capabilities:
    """Try every kind of call on short rows; raise ModelError if the graph cannot even run one row."""
    size = min(max_positions, _LENGTH)
    vocab_size = graph.layout.vocab_size
    # Two primes, so that the ids are far apart in a vocabulary of any size.
    first, second = ([(factor * index + 1) % vocab_size for index in range(size)] for factor in (7919, 104_729))
    short, cut = second[: size // 2], size // 2
    try:
        first_alone, second_alone, short_alone = (_logits(graph, [row])[0] for row in (first, second, short or second))
    except Exception as error:  # onnxruntime has no common base class for the errors of a call
        raise ModelError(f"{graph.file} cannot run its first step: {str(error).strip()[:300]}") from error
    limit = _TOLERANCES[graph.layout.logits_dtype] * float(np.ptp(np.concatenate((first_alone, second_alone))))

    def gives(call: Callable[[], _Rows], *expected: NDArray[np.float32]) -> bool:
        try:
            rows = call()
        except Exception:  # as above: the graph refuses such a call
            return False
        return all(np.allclose(row, right, rtol=0, atol=limit) for row, right in zip(rows, expected, strict=True))

    batches = gives(lambda: _logits(graph, [first, second]), first_alone, second_alone)
    pads = batches and bool(short) and gives(lambda: _logits(graph, [first, short]), first_alone, short_alone)
    extends = extends_batches = steps = skips_padding = False
    if graph.layout.cache and cut:
        ending = second[cut : size - 1 if pads else size]
        extends = gives(lambda: _after_past(graph, first[:cut], [first[cut:]]), first_alone[cut:])
        extends_batches = batches and extends and gives(
            lambda: _after_past(graph, first[:cut], [first[cut:], ending]),
            first_alone[cut:],
            _logits(graph, [first[:cut] + ending])[0][cut:],
        )  # fmt: skip
        steps = batches and gives(
            lambda: _step(graph, [first[:cut], second[:cut]], [first[cut], second[cut]]),
            first_alone[cut : cut + 1],
            second_alone[cut : cut + 1],
        )
        skips_padding = steps and cut > 1 and gives(
            lambda: _step(graph, [first[:cut], second[: cut - 1]], [first[cut], second[cut - 1]]),
            first_alone[cut : cut + 1],
            second_alone[cut - 1 : cut],
        )  # fmt: skip
    return Capabilities(batches, pads, extends, extends_batches, steps, skips_padding)


def _logits(graph: ExportedCausalGraph, rows: Sequence[Sequence[int]], past: Sequence[NDArray[Any]] = ()) -> _Rows:
    logits, _ = graph.call(rows, past, is_quiet=True)
    return [logits[row, : len(ids)].astype(np.float32) for row, ids in enumerate(rows)]


def _after_past(graph: ExportedCausalGraph, beginning: Sequence[int], endings: Sequence[Sequence[int]]) -> _Rows:
    """Logits of rows after one past."""
    _, past = graph.call([beginning], wants_logits=False, wants_present=True, is_quiet=True)
    return _logits(graph, endings, [np.repeat(part, len(endings), axis=0) for part in past])


def _step(graph: ExportedCausalGraph, beginnings: Sequence[Sequence[int]], ids: Sequence[int]) -> _Rows:
    """Logits of one more token in each row; shorter pasts are padded on the left."""
    pasts = [graph.call([row], wants_logits=False, wants_present=True, is_quiet=True)[1] for row in beginnings]
    lengths = np.array([len(row) for row in beginnings])
    logits, _ = graph.step(np.array(ids, np.int64), padded_pasts(pasts, lengths), lengths, is_quiet=True)
    return [row[None].astype(np.float32) for row in logits]
