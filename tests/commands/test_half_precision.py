"""Commands say that half precision is for GPUs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkpoints import write_marian_checkpoint
from tests.command_line import Kvjobs
from tests.messages import line_with
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model

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


def test_adding_a_model_in_half_precision_says_how_to_use_it(kvjobs: Kvjobs, tmp_path: Path) -> None:
    checkpoint = write_marian_checkpoint(tmp_path / "tiny")

    added = kvjobs("models", "add", checkpoint, "--precision", "fp16", "--name", "tiny-half")

    assert added.exit_code == 0
    assert line_with(added.err, "fp16", "GPUs", "--device cuda:0")
    assert "--model tiny-half --queue gpu" in added.err


def test_submit_refuses_a_model_that_no_worker_of_the_queue_can_run(kvjobs: Kvjobs, tmp_path: Path) -> None:
    checkpoint = write_marian_checkpoint(tmp_path / "tiny")
    kvjobs("models", "add", checkpoint, "--name", "tiny-exact")
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "1", "text": "rain in the hills"}\n')

    refused = kvjobs("submit", corpus, "--model", "tiny-exact", "--queue", "gpu")

    assert refused.exit_code == 2
    assert "kvjobs models add SOURCE --precision fp16" in refused.err
