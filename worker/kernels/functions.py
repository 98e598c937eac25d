"""
The kernels that a search and its cache call, with arrays.

Shapes: R rows · V vocabulary · n sentences · w rows of each · N heads · C capacity · H head size.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from worker.kernels.library import ContinuationsStruct, Layouts, Library, RowCopies

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]

_FLOAT = np.dtype(np.float32)
_MOVES = tuple(map(np.dtype, (np.int64, np.int64, np.int32, np.int32)))  # of `Kernels.copy_rows`


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels of one library, called with arrays in C order.

    A kernel only gets the address of an array. So each method raises ValueError for arrays of another type or shape,
    for rows and positions that a cache lacks, and for more continuations than MAX_CONTINUATIONS; then nothing was
    written.
    """

    MAX_CONTINUATIONS: ClassVar = 64  # as in kernels.h

    library: Library

    @property
    def file(self) -> Path:
        """The library, which has onnxruntime's custom operators too."""
        return self.library.file

    @property
    def fuses(self) -> bool:
        """Whether graphs are to have these operators."""
        return self.library.fuses

    def sum_powers(self, x: Floats, factors: Floats | None) -> Floats:
        """The sum of e^(x * factor) over each row of x (R, V), with the factors (R,): (R,). Powers beyond the range of
        float32 are cut to it."""
        rows, size = x.shape
        sums = np.empty(rows, np.float32)
        own = None if factors is None else _address(factors, _FLOAT, (rows,))
        self.library.functions.kvjobs_sum_powers(_address(x, _FLOAT, (rows, size)), rows, size, own, _start(sums))
        return sums

    def best_continuations(
        self, logits: Floats, factors: Floats | None, normalizers: Floats, before: Floats, count: int
    ) -> tuple[Floats, Ids, Ids, NDArray[np.bool_]]:
        """The scores, rows and ids of the `count` best of each sentence (n, count), best first, and whether they are
        certain (n,): not where scores are equal, or not finite. For the other arrays see
        `worker.engine.search.beam_candidates.best_continuations`."""
        n, width = before.shape
        num_rows, (_, size) = n * width, logits.shape
        scores = np.empty((n, count), np.float32)
        rows, ids = np.empty((n, count), np.int64), np.empty((n, count), np.int64)
        is_sure = np.empty(n, np.bool_)
        given = ContinuationsStruct(
            n, width, size, count,
            _address(logits, _FLOAT, (num_rows, size)),
            None if factors is None else _address(factors, _FLOAT, (num_rows,)),
            _address(normalizers, _FLOAT, (num_rows,)),
            _address(before, _FLOAT, (n, width)),
            _start(scores), _start(rows), _start(ids), _start(is_sure),
        )  # fmt: skip
        if self.library.functions.kvjobs_best_continuations(given):
            raise ValueError(f"{count} continuations: 1 to {self.MAX_CONTINUATIONS} can be found")
        return scores, rows, ids, is_sure

    def copy_rows(
        self, cache: NDArray[Any], to: Ids, source: Ids, first: NDArray[np.int32], last: NDArray[np.int32]
    ) -> None:
        """Copy the positions [first, last) of rows `source` to rows `to` (m,) each, one after the other, of a cache
        (parts, R, N, C, H)."""
        *axes, head_size = cache.shape
        moves = [np.ascontiguousarray(array) for array in (to, source, first, last)]
        given = RowCopies(
            *axes, head_size * cache.itemsize, _address(cache, cache.dtype, cache.shape, is_written=True), len(to),
            *(_address(array, dtype, (len(to),)) for array, dtype in zip(moves, _MOVES, strict=True)),
        )  # fmt: skip
        if self.library.functions.kvjobs_copy_rows(given):
            raise ValueError(f"rows or positions that a cache of {axes[1]} rows and {axes[3]} positions lacks")

    def lay_out(self, old: NDArray[Any], new: NDArray[Any], kept: int, cached: int) -> None:
        """Copy the first `cached` positions of the first `kept` rows of a cache (parts, R, N, C, H) into another layout
        of it, which may share its memory."""
        parts, old_rows, heads, old_capacity, head_size = old.shape
        _, new_rows, _, new_capacity, _ = new.shape
        given = Layouts(
            parts, heads, head_size * old.itemsize, kept, cached, old_rows, old_capacity, new_rows, new_capacity,
            _address(old, old.dtype, old.shape),
            _address(new, old.dtype, (parts, new_rows, heads, new_capacity, head_size), is_written=True),
        )  # fmt: skip
        if self.library.functions.kvjobs_lay_out(given):
            raise ValueError(f"{kept} rows and {cached} positions do not fit {old.shape} and {new.shape}")


def _address(array: NDArray[Any], dtype: np.dtype[Any], shape: tuple[int, ...], *, is_written: bool = False) -> int:
    """The address of an array, which has to be of this type and shape; raise ValueError for another.
    (numpy.ctypeslib.ndpointer takes as long, and compares shapes only with one that is known beforehand.)"""
    flags = array.flags
    fits = array.dtype == dtype and array.shape == shape and flags.c_contiguous and flags.aligned
    if not fits or (is_written and not flags.writeable):
        raise ValueError(f"an array of {array.dtype} {array.shape}, not one of {dtype} {shape}, row after row")
    return _start(array)


def _start(array: NDArray[Any]) -> int:
    start: int = array.__array_interface__["data"][0]  # `array.ctypes` takes twice as long
    return start
