"""Parquet files are read in a process of their own: hostile ones cost a sentence, not the machine."""

import gc
import io
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from jobs.corpus.corpus import Corpus
from jobs.corpus.parquet.reader import MEMORY_BYTES
from jobs.corpus.reading import read_corpus
from jobs.documents import Document
from jobs.errors import CorpusError
from tests.parquet_files import pa, pq, write_parquet
from tests.places import CHECKOUT
from tests.repetition import times


def read(path: Path, **how: Any) -> list[Any]:
    return list(read_corpus(Corpus(path=path, **how)))


def outcome(path: Path) -> str:
    """The sentence that refuses a file, or how many rows it has."""
    try:
        return f"{sum(1 for _ in read_corpus(Corpus(path=path)))} rows"
    except CorpusError as error:
        name, _, sentence = str(error).partition(": ")
        return sentence if name == str(path) else f"another file: {error}"


def outcome_and_peak(path: Path) -> tuple[str, int]:
    """As `outcome`, and the bytes of the largest child process. Read in a small process of its own: a child begins with
    the peak of the process that it was forked from, and a process that runs tests may be larger than the limit."""
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from tests.processes.corpus.test_parquet_process import outcome\n"
        "print(outcome(Path(sys.argv[1])))\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=CHECKOUT, check=True, capture_output=True, text=True
    )
    said, peak = done.stdout.rsplit("\n", 2)[:2]
    return said, int(peak)


def test_rows_of_several_groups_come_in_order(tmp_path: Path) -> None:
    texts = [f"number {number}" for number in range(10_000)]
    path = write_parquet(tmp_path / "a.parquet", {"text": texts}, row_group_size=777)

    assert [record.text for record in read(path) if isinstance(record, Document)] == texts


def test_standard_input_may_be_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_parquet(tmp_path / "a.parquet", {"text": ["one", "two"]}).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    assert [record.text for record in read(Path("-"), format="parquet")] == ["one", "two"]


def test_a_folder_called_jobs_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"text": ["one"]})
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)

    assert len(read(path)) == 1


def test_a_reader_that_is_dropped_ends_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"text": ["x" * 1000] * 5_000}, compression="none")
    real, started = subprocess.Popen, []

    def start(*arguments: Any, **how: Any) -> Any:
        started.append(real(*arguments, **how))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start)

    records = read_corpus(Corpus(path=path))
    next(records)
    records.close()  # type: ignore[attr-defined]
    gc.collect()

    assert [process.returncode is None for process in started] == [False]


def test_a_process_that_dies_is_no_end_of_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"text": ["one", "two"]})
    real = subprocess.Popen
    script = 'import os, sys; print(\'{"rows": 2}\'); print(\'{"text": "one"}\', flush=True); os.abort()'

    def start(command: list[str], **how: Any) -> Any:
        return real([sys.executable, "-c", script], **how)

    monkeypatch.setattr(subprocess, "Popen", start)

    with pytest.raises(CorpusError, match=r"SIGABRT .*damaged"):
        read(path)


# hostile files ------------------------------------------------------------------------------------------------------


def footer_replaced(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    size = struct.unpack("<I", data[-8:-4])[0]
    body, footer = data[: -8 - size], data[-8 - size : -8]
    assert old in footer
    footer = footer.replace(old, new)
    path.write_bytes(body + footer + struct.pack("<I", len(footer)) + b"PAR1")


def test_a_footer_that_promises_a_billion_rows_is_refused(tmp_path: Path) -> None:
    def zigzag(number: int) -> bytes:
        value, out = number << 1, b""
        while value > 127:
            out, value = out + bytes([value & 127 | 128]), value >> 7
        return out + bytes([value])

    path = write_parquet(tmp_path / "a.parquet", {"text": [f"{number}" for number in range(12_345)]})
    footer_replaced(path, zigzag(12_345), zigzag(1_000_000_000))

    said, peak = outcome_and_peak(path)

    assert "damaged" in said or "its footer" in said
    assert peak < MEMORY_BYTES // 4


def test_a_page_that_unpacks_beyond_the_limit_is_refused_within_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text of 250 MB of the same letter is a few kB of zstd."""
    path = tmp_path / "a.parquet"
    text = pa.array([b"x" * 250_000_000], pa.large_binary())
    write_parquet(path, {"text": text}, compression="zstd", use_dictionary=False, write_statistics=False)
    assert path.stat().st_size < 1 << 17
    monkeypatch.setattr("jobs.corpus.parquet.reader.MEMORY_BYTES", 200 << 20)

    assert outcome(path).endswith(
        "more than 200 MiB of memory; write it with smaller row groups and pages, or as jsonl"
    )


def test_a_value_repeated_many_times_is_read_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dictionary of one text of 100 kB, named by 2,500 rows: 250 MB of texts in a file of a few kB."""
    monkeypatch.setattr("jobs.corpus.parquet.reader.MEMORY_BYTES", 200 << 20)
    text = pa.array(["x" * 100_000]).dictionary_encode()
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 2_500, pa.int32()), text.dictionary)
    path = write_parquet(tmp_path / "a.parquet", {"text": column})
    assert path.stat().st_size < 200_000

    found = sum(len(record.text) for record in read_corpus(Corpus(path=path)) if isinstance(record, Document))

    assert found == 250_000_000


@pytest.mark.parametrize("depth", [150, 1_000])
def test_a_schema_nested_deep_is_refused_or_read(tmp_path: Path, depth: int) -> None:
    """Written in a process of its own: pyarrow itself may not survive it."""
    code = (
        "import pyarrow as pa, pyarrow.parquet as pq, sys\n"
        "kind = pa.int64()\n"
        "for _ in range(int(sys.argv[2])): kind = pa.struct([('a', kind)])\n"
        "pq.write_table(pa.table({'text': ['x'], 'deep': pa.nulls(1, kind)}), sys.argv[1])\n"
    )
    path = tmp_path / "a.parquet"
    subprocess.run([sys.executable, "-c", code, str(path), str(depth)], check=True)

    said = outcome(path)
    assert said == "1 rows" or any(word in said for word in ("nested", "damaged", "killed"))


def test_metadata_of_many_megabytes_is_no_obstacle(tmp_path: Path) -> None:
    table = pa.table({"text": ["one"]}).replace_schema_metadata({b"k" * 1000: b"v" * 20_000_000})
    pq.write_table(table, tmp_path / "a.parquet")

    said = outcome(tmp_path / "a.parquet")
    assert said == "1 rows" or "damaged" in said


def test_a_table_of_ten_thousand_columns_is_read(tmp_path: Path) -> None:
    columns = {"text": ["one"], **{f"c{number}": [number] for number in range(10_000)}}
    (record,) = read(write_parquet(tmp_path / "a.parquet", columns))

    assert len(orjson.loads(record.fields)) == 10_000


@pytest.mark.long
@pytest.mark.parametrize("seed", range(times(4)))  # one to four bytes
def test_a_damaged_file_ends_in_a_sentence(tmp_path: Path, seed: int) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"text": ["one", "two"] * 500, "n": list(range(1000))})
    data, chance = bytearray(path.read_bytes()), random.Random(seed)
    for _ in range(1 + seed % 4):
        data[chance.randrange(len(data))] = chance.randrange(256)
    path.write_bytes(data)

    said = outcome(path)
    assert said == "1000 rows" or any(
        word in said for word in ("damaged", "not a parquet", "does not read", "no column", "holds", "GiB")
    )
