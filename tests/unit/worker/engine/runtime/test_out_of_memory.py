"""A block that runs out of memory is repeated at half its size, down to a least size; any other error is raised."""

import logging
import weakref

import numpy as np
import pytest

from worker.engine.runtime.out_of_memory import halve_on_out_of_memory


def sizes_tried(size: int, fitting: int, *, least: int = 1) -> list[int]:
    tried: list[int] = []
    fits = False
    while not fits:
        tried.append(size)
        with halve_on_out_of_memory(size, "rows", least=least) as attempt:
            if size > fitting:
                raise MemoryError
        size, fits = attempt.half, attempt.fits
    return tried


def test_the_larger_half_is_tried_until_it_fits(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert sizes_tried(9, fitting=2) == [9, 5, 3, 2]

    assert [record.getMessage() for record in caplog.records] == [
        f"{size} rows do not fit into memory: " for size in (9, 5, 3)
    ]


def test_nothing_smaller_than_the_least_size_is_tried() -> None:
    assert sizes_tried(100, fitting=16, least=16) == [100, 50, 25, 16]
    with pytest.raises(MemoryError):
        sizes_tried(100, fitting=15, least=16)


def test_another_error_is_raised() -> None:
    with pytest.raises(RuntimeError, match="Invalid node"), halve_on_out_of_memory(8, "rows"):
        raise RuntimeError("Invalid node")


def test_after_the_block_the_error_keeps_no_buffer_alive() -> None:
    def call() -> None:
        buffer = np.zeros(8)
        held.append(weakref.ref(buffer))
        raise RuntimeError("BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer")

    held: list[weakref.ref[np.ndarray]] = []
    with halve_on_out_of_memory(8, "rows") as attempt:
        call()

    assert not attempt.fits
    assert held[0]() is None
