"""
The kernels that a search and its cache call, with arrays.

Shapes: R rows · V vocabulary · n sentences · w rows of each · N heads · C capacity · H head size.
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


class _RowCopies(ctypes.Structure):
    """`struct row_copies` of kernels.h."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("parts", "rows", "heads", "capacity", "position")),
        ("memory", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        *((name, ctypes.c_void_p) for name in ("to", "from", "first", "last")),
    )


class _Layouts(ctypes.Structure):
    """`struct layouts` of kernels.h."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("parts", "heads", "position", "kept_rows", "cached")),
        *((name, ctypes.c_size_t) for name in ("old_rows", "old_capacity", "new_rows", "new_capacity")),
        *((name, ctypes.c_void_p) for name in ("from", "to")),
    )


@dataclass(frozen=True, slots=True)
class Kernels:
    """Those of one library. Arrays are contiguous."""

    library: Library

    @property
    def file(self) -> Path:
        """The library, which has onnxruntime's custom operators too."""
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

    def copy_rows(
        self, cache: NDArray[Any], to: Ids, source: Ids, first: NDArray[np.int32], last: NDArray[np.int32]
    ) -> None:
        """Copy the positions [first, last) of rows `source` to rows `to` (m,) each, one after the other, of a cache
        (parts, R, N, C, H)."""
        *axes, head_size = cache.shape
        arrays = [np.ascontiguousarray(array) for array in (to, source, first, last)]
        given = _RowCopies(*axes, head_size * cache.itemsize, _address(cache), len(to), *map(_address, arrays))
        self.library.functions.kvjobs_copy_rows(ctypes.byref(given))

    def lay_out(self, old: NDArray[Any], new: NDArray[Any], kept: int, cached: int) -> None:
        """Copy the first `cached` positions of the first `kept` rows of a cache (parts, R, N, C, H) into another layout
        of it, which may share its memory."""
        parts, old_rows, heads, old_capacity, head_size = old.shape
        sizes = parts, heads, head_size * old.itemsize, kept, cached
        layouts = old_rows, old_capacity, new.shape[1], new.shape[3]
        self.library.functions.kvjobs_lay_out(ctypes.byref(_Layouts(*sizes, *layouts, _address(old), _address(new))))


@functools.cache
def compiled_kernels() -> Kernels | None:
    """Those of this process; None: there are none."""
    try:
        return Kernels(open_library())
    except NoKernelsError:
        return None


def _address(array: NDArray[Any] | None) -> ctypes.c_void_p:
    """Of an array's memory."""
    if array is None:
        return ctypes.c_void_p(None)
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.__array_interface__["data"][0])  # `array.ctypes` takes twice as long
