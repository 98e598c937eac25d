"""Tables of other libraries are rows: frames of pandas and polars, datasets of Hugging Face."""

from collections.abc import Iterator
from pathlib import Path

import datasets
import pandas
import polars
import pytest

from kvjobs import Client, connect

COLUMNS = {"id": ["a", "b"], "text": ["Snow will fall.", "Rain will fall in the north."], "n": [1, 2]}


@pytest.fixture
def kv(tmp_path: Path) -> Iterator[Client]:
    with connect(home=str(tmp_path)) as client:
        yield client


def test_frames_and_datasets_of_the_same_rows_have_the_same_results(kv: Client) -> None:
    job = kv.submit(pandas.DataFrame(COLUMNS, index=[5, 9])).wait(60)
    expected = [result["translation"] for result in job.results()]
    dataset = datasets.Dataset.from_dict(COLUMNS)

    for rows in (polars.DataFrame(COLUMNS), dataset, dataset.to_iterable_dataset()):
        again = kv.submit(rows).wait(60)
        assert again.ok
        assert [result["translation"] for result in again.results()] == expected

    frame = job.to_pandas()
    assert list(frame["n"]) == [1, 2]
    assert "index" not in " ".join(frame.columns)
    assert polars.from_arrow(job.to_arrow())["id"].to_list() == ["a", "b"]
