"""A table of embeddings whose rows are read from the file gives what the mapped table gives, bit for bit."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from jobs.errors import ModelError
from tests.models.engine.causal.greedy_oracle import generate
from tests.models.engine.causal.native.test_generation import RULES, prompts
from tests.models.engine.causal.native.test_reader import difference, mixture, read
from tests.models.engine.causal.native.tiny_causal import TinyCausal
from tests.split_models import split_kv_model
from worker.engine.causal.native import row_table
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.native.row_table import RowTable

Open = Callable[[Path], NativeCausal]


@pytest.fixture
def open_reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens a model whose table is read from the file, however small."""
    made = []

    def note(*arguments: object) -> RowTable:
        made.append(RowTable(*arguments))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(row_table, "LEAST", 0)
    monkeypatch.setattr(row_table, "RowTable", note)
    yield NativeCausal.open
    assert made, "the table was mapped"


@pytest.mark.parametrize("name", ["llama", "llama, biases, own head, heads of 10"])
def test_scores_and_continuations_are_those_of_a_mapped_table(
    make: Callable[..., TinyCausal], open_reading: Open, name: str
) -> None:
    mapped, reading = make(name).model, open_reading(make(name).folder)

    assert difference(read(reading.new_reader(), mixture()), read(mapped.new_reader(), mixture())) == 0
    continued = [generate(model, prompts(), RULES["greedy"]) for model in (mapped, reading)]
    assert continued[0] == continued[1]


def test_the_first_stage_of_a_split_model_reads_rows_too(
    make: Callable[..., TinyCausal], open_reading: Open, tmp_path: Path
) -> None:
    made = make("llama")
    split = open_reading(split_kv_model(made.folder, tmp_path / "split", 2))

    assert difference(read(split.new_reader(), mixture()), read(made.model.new_reader(), mixture())) == 0


def test_a_row_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "weights.data").write_bytes(bytes(4 * 8 * 3))
    table = RowTable(tmp_path / "weights.data", 0, (3, 8))
    os.truncate(tmp_path / "weights.data", 4 * 8 * 2 + 5)

    table.read(np.array([0, 1]), table.empty(2))
    for token_id in (2, 3, -1):
        with pytest.raises(ModelError, match=rf"weights\.data .*row {token_id} "):
            table.read(np.array([1, token_id]), table.empty(2))
