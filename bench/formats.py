"""Parquet beside JSON Lines: how fast a corpus becomes a job, and a job a file.

    python -m bench.formats [--documents 300000] [--rounds 3] [--json]

The same documents (an id, 60 words, a language, a double) are written as both formats. Each is submitted into a SQLite
file of its own and exported again with its text (documents without results), in turns, each in a process of its own.
Processor time and memory are those of that process, and of the process that reads parquet. Needs the extra `parquet`.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.choices import Only
from jobs.corpus.corpus import Corpus
from jobs.export.export_file import export_file
from jobs.export.export_options import Export
from jobs.export.result_columns import Extra
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.report.job_summary import find_job
from jobs.submission.submit import submit
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions

FORMS = ("jsonl", "parquet")
WORDS = 60  # of a document
ROWS = 100_000  # of a row group


def main() -> None:
    parser = argparse.ArgumentParser(description="Parquet beside JSON Lines.")
    parser.add_argument("--documents", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _apart(write_corpora, folder, arguments.documents)  # a process begins with the peak of the one that starts it
        rounds = [{form: _apart(measure, folder, form, number) for form in FORMS} for number in range(arguments.rounds)]
        sizes = {form: (folder / f"corpus.{form}").stat().st_size for form in FORMS}
    result = {
        "documents": arguments.documents,
        "bytes": sizes,
        "load": round(os.getloadavg()[0], 1),
        **_medians(rounds),
    }
    print(json.dumps(result, indent=None if arguments.json else 2))


def write_corpora(folder: Path, num_documents: int) -> None:
    """The same documents as corpus.jsonl and corpus.parquet."""
    rows = list(documents(num_documents))
    with (folder / "corpus.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    pq.write_table(pa.Table.from_pylist(rows), folder / "corpus.parquet", row_group_size=ROWS, compression="zstd")


def documents(number: int) -> Iterator[dict[str, Any]]:
    """The same in every run."""
    rng = random.Random(0)
    words = [f"w{rng.randrange(10**6)}" for _ in range(20_000)]
    for index in range(number):
        text = " ".join(rng.choices(words, k=WORDS))
        yield {"id": f"doc-{index:08d}", "text": text, "lang": rng.choice(("en", "de")), "quality": rng.random()}


def measure(folder: Path, form: str, number: int) -> dict[str, dict[str, float]]:
    """Submit the corpus of a format, and export its job in that format."""
    database = Database.open(f"sqlite:///{folder / f'{form}-{number}.db'}")
    spec = JobSpec(task=Task.TRANSLATE, model="bench", model_revision="0" * 64, options=TranslateOptions())
    corpus = Corpus(path=folder / f"corpus.{form}")
    submitted = _timed(lambda: submit(database, corpus, spec, spool=folder))
    with database.reading() as connection:
        job = find_job(connection, "last")
    options = Export(only=Only.ALL, extras=[Extra.TEXT])
    out = folder / f"out-{number}.{form}"
    exported = _timed(lambda: export_file(database, job, out, options, tell=print))
    database.close()
    return {"submit": submitted, "export": exported}


def _timed(work: Callable[[], object]) -> dict[str, float]:
    started, cpu_started = time.perf_counter(), _cpu_seconds()
    work()
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": _cpu_seconds() - cpu_started,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "peak_mb_of_reader": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10,
    }


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _apart(work: Callable[..., Any], *arguments: Any) -> Any:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def _medians(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of the rounds, and of the ratios within a round."""
    found: dict[str, Any] = {}
    for step in ("submit", "export"):
        found[step] = {
            form: {
                key: round(statistics.median([one[form][step][key] for one in rounds]), 2)
                for key in rounds[0][form][step]
            }
            for form in FORMS
        }
        found[step]["parquet / jsonl"] = {
            key: round(statistics.median([one["parquet"][step][key] / one["jsonl"][step][key] for one in rounds]), 2)
            for key in ("seconds", "cpu_seconds")
        }
    return found


if __name__ == "__main__":
    main()
