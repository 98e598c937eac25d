"""Which precision runs on which device, and the advice about it."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import SpecError
from jobs.spec import JobSpec
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.checkpoints import write_marian_checkpoint
from tests.messages import line_with
from worker.engine.runtime.device import providers
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.admission import admit, advise_queue
from worker.warm_models import WarmModels

Add = Callable[[str], str]


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def add(tmp_path: Path, models_dir: Path) -> Add:
    def call(precision: str) -> str:
        checkpoint = write_marian_checkpoint(tmp_path / "tiny")
        return add_model(Request(source=str(checkpoint), precision=Precision(precision)), models_dir).name

    return call


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_job_for_the_gpu_queue_needs_a_model_that_gpus_can_run(add: Add, models_dir: Path, precision: str) -> None:
    name = add(precision)

    with pytest.raises(SpecError, match=r"--precision fp16.*--queue cpu"):
        advise_queue(name, models_dir, "gpu")
    assert advise_queue(name, models_dir, "cpu") is None


def test_half_precision_on_the_cpu_queue_is_advised_against(add: Add, models_dir: Path) -> None:
    name = add("fp16")

    assert advise_queue(name, models_dir, "gpu") is None
    assert "GPUs" in (advise_queue(name, models_dir, "cpu") or "")


def test_an_export_may_go_to_any_queue(models_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()

    assert advise_queue(str(tmp_path / "export"), models_dir, "gpu") is None


@pytest.mark.parametrize(("precision", "first"), [("fp16", "CUDAExecutionProvider"), ("fp32", "CPUExecutionProvider")])
def test_a_worker_with_a_gpu_runs_other_precisions_on_its_cpu(
    add: Add,
    models_dir: Path,
    precision: str,
    first: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    spec: JobSpec = admit(Task.TRANSLATE, add(precision), models_dir, TranslateOptions())
    asked: list[Any] = []
    opened = NativeSeq2Seq.open

    def note(folder: Path, *, threads: int, providers: Any) -> Any:
        asked.extend(providers)
        return opened(folder, threads=threads)  # this machine has no GPU

    monkeypatch.setattr(NativeSeq2Seq, "open", note)
    with caplog.at_level(logging.WARNING):
        WarmModels(models_dir, 1, providers("cuda:0")).open(spec)

    assert (asked[0] if isinstance(asked[0], str) else asked[0][0]) == first
    assert bool(line_with(caplog.text, "--precision fp16", "CPU")) == (precision == "fp32")
