"""Kernels that are wrong on this processor are used by nothing."""

import dataclasses
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from worker.kernels import compiled, library, probe
from worker.kernels.compiled import compiled_kernels
from worker.kernels.functions import Kernels
from worker.kernels.library import open_library
from worker.kernels.probe import wrong_kernels
from worker.port import PORT


def test_each_instruction_set_is_right(kernels: Kernels) -> None:
    assert wrong_kernels(kernels) == []


class _WrongSums(Kernels):
    def sum_powers(self, *args: Any) -> Any:
        return super().sum_powers(*args) * 1.001


class _WrongScores(Kernels):
    def best_continuations(self, *args: Any) -> Any:
        scores, *rest = super().best_continuations(*args)
        return np.nextafter(scores, np.float32(np.inf)), *rest


class _WrongIds(Kernels):
    def best_continuations(self, *args: Any) -> Any:
        scores, rows, ids, is_sure = super().best_continuations(*args)
        return scores, rows, ids[:, ::-1], is_sure


class _Unsure(Kernels):
    def best_continuations(self, *args: Any) -> Any:
        *found, is_sure = super().best_continuations(*args)
        return *found, ~is_sure


class _WrongCopies(Kernels):
    def copy_rows(self, cache: Any, to: Any, source: Any, first: Any, last: Any) -> None:
        super().copy_rows(cache, to, source, first, last - 1)


class _WrongLayout(Kernels):
    def lay_out(self, old: Any, new: Any, kept: int, cached: int) -> None:
        super().lay_out(old, new, kept, cached - 1)


@pytest.mark.parametrize(("wrong", "names"), [
    (_WrongSums, ["sum_powers"]), (_WrongScores, ["best_continuations"]), (_WrongIds, ["best_continuations"]),
    (_Unsure, ["best_continuations"]), (_WrongCopies, ["copy_rows"]), (_WrongLayout, ["lay_out"]),
])  # fmt: skip
def test_a_function_that_is_wrong_is_named(library_is_there: None, wrong: type[Kernels], names: list[str]) -> None:
    assert wrong_kernels(wrong(open_library())) == names


def test_an_operator_is_named_whichever_result_is_wrong(library_is_there: None) -> None:
    kernels, rng = Kernels(open_library()), np.random.default_rng(1)
    for case in (*probe._attention(rng), *probe._rows(rng)):
        assert probe._wrong_operators(kernels, [case]) == []
        for name, wanted in case.wanted.items():
            other = wanted.copy()
            other.flat[-1] += 2
            changed = dataclasses.replace(case, wanted=case.wanted | {name: other})
            assert probe._wrong_operators(kernels, [changed]) == [case.node.op_type]


def test_operators_that_onnxruntime_cannot_load_are_wrong(library_is_there: None, tmp_path: Path) -> None:
    """The other kernels need no onnxruntime."""
    kernels = Kernels(dataclasses.replace(open_library(), file=tmp_path / "none.so"))

    assert wrong_kernels(kernels) == [
        "AttendToCache", "AttendToInt8Cache", "AttendWithin", "FinishProduct", "FinishRows",
    ]  # fmt: skip


def test_kernels_that_are_wrong_are_not_used_and_the_log_says_so(
    library_is_there: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiled, "wrong_kernels", lambda kernels: ["sum_powers", "lay_out"])

    with caplog.at_level(logging.WARNING):
        assert compiled_kernels.__wrapped__() is None

    (record,) = caplog.records
    assert "sum_powers, lay_out" in record.getMessage()
    assert open_library().instruction_set in record.getMessage()


def test_doctor_calls_kernels_distrusted_where_they_are_wrong_and_says_what_to_do(
    library_is_there: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = PORT.check_kernels()
    wrong = (
        'import worker.kernels.compiled\nworker.kernels.compiled.wrong_kernels = lambda _: ["sum_powers", "lay_out"]'
    )
    monkeypatch.setattr(library, "_TRIAL", wrong + library._TRIAL)
    distrusted = PORT.check_kernels()
    monkeypatch.setattr(library, "_TRIAL", "import os, signal\nos.kill(os.getpid(), signal.SIGILL)")
    died = PORT.check_kernels()

    assert (trusted.found.split()[0].strip(","), trusted.mend) == ("compiled", "")
    assert distrusted.found.startswith("distrusted")
    assert "sum_powers, lay_out" in distrusted.found
    assert "SIGILL" in died.found
    assert "--no-cache-dir" in distrusted.mend == died.mend


def test_where_there_are_none_nothing_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`kvjobs doctor` says it."""
    monkeypatch.setenv("KVJOBS_KERNELS", "off")

    assert compiled_kernels.__wrapped__() is None
    assert not caplog.records
