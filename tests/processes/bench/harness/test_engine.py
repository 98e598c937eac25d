"""Benchmark engines in processes of their own: what a failure reports."""

import pytest

from bench.checkpoints.folders import made_once
from bench.harness.engine import Engine
from bench.harness.processes.process import EngineError


def test_an_engine_that_cannot_start_reports_the_reason(tmp_path):
    with pytest.raises(EngineError, match=r"No module named 'bench\.peers\.nobody'"):
        Engine("nobody", "fp32", tmp_path, tmp_path)


def test_a_model_folder_that_could_not_be_made_leaves_nothing_behind(tmp_path):
    with pytest.raises(RuntimeError, match=r"could not be made: .*No module named"):
        made_once(tmp_path / "model", lambda out: ["bench.nobody", str(out)])

    assert list(tmp_path.iterdir()) == []


def test_a_model_folder_is_made_once(tmp_path):
    (tmp_path / "model").mkdir()

    assert made_once(tmp_path / "model", lambda out: ["bench.nobody", str(out)]) == tmp_path / "model"
