"""
The kernels that a search calls, with arrays.

Shapes: R rows · V vocabulary · n sentences · w rows of each.
"""

import ctypes
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.kernels.library import Library, NoKernelsError, open_library

MAX_CONTINUATIONS = 64  # as in kernels.h

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


class _Continuations(ctypes.Structure):
    """`struct continuations` of kernels.h."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("sentences", "width", "size", "count")),
        *((name, ctypes.c_void_p) for name in ("logits", "factors", "normalizers", "before")),
        *((name, ctypes.c_void_p) for name in ("scores", "rows", "ids", "is_sure")),
    )


@dataclass(frozen=True, slots=True)
class Kernels:
    """Those of one library. Arrays are contiguous."""

    library: Library

    @property
    def file(self) -> Path:
        """The library, which has onnxruntime's custom operators too (operators.c)."""
        return self.library.file

    def sum_powers(self, x: Floats, factors: Floats | None) -> Floats:
        """The sum of e^(x * factor) over each row of x (R, V), with the factors (R,): (R,). Powers beyond the range of
        float32 are cut to it."""
        sums = np.empty(len(x), np.float32)
        call = self.library.functions.kvjobs_sum_powers
        call(_address(x), ctypes.c_size_t(len(x)), ctypes.c_size_t(x.shape[1]), _address(factors), _address(sums))
        return sums

    def best_continuations(
        self, logits: Floats, factors: Floats | None, normalizers: Floats, before: Floats, count: int
    ) -> tuple[Floats, Ids, Ids, NDArray[np.bool_]]:
        """The scores, rows and ids of the `count` best of each sentence (n, count), best first, and whether they are
        certain (n,): not where scores are equal, or not finite. For the other arrays see
        `worker.engine.search.beam_candidates.best_continuations`; at most MAX_CONTINUATIONS."""
        n, width = before.shape
        scores = np.empty((n, count), np.float32)
        rows, ids = np.empty((n, count), np.int64), np.empty((n, count), np.int64)
        is_sure = np.empty(n, np.bool_)
        arrays = (logits, factors, normalizers, before, scores, rows, ids, is_sure)
        given = _Continuations(n, width, logits.shape[1], count, *map(_address, arrays))
        self.library.functions.kvjobs_best_continuations(ctypes.byref(given))
        return scores, rows, ids, is_sure


@functools.cache
def compiled_kernels() -> Kernels | None:
    """Those of this process; None: there are none."""
    try:
        return Kernels(open_library())
    except NoKernelsError:
        return None


def _address(array: NDArray[Any] | None) -> ctypes.c_void_p:
    """Of an array's memory."""
    assert array is None or array.flags.c_contiguous
    return ctypes.c_void_p(None if array is None else array.ctypes.data)
