"""
A BEIR folder with a retrieval run, read as the documents of a reranking job: queries with candidates.

    corpus.jsonl   {"_id", "title", "text"}           only the texts that the run names are stored
    queries.jsonl  {"_id", "text"}
    run            qid Q0 docid rank score tag        TREC, from any first stage

A document is a query of the run, in the order in which the run first names them. Its candidates are ordered by score,
as trec_eval reads a run (it ignores the rank), and by line where scores are equal. The three files are joined on disk,
so that a corpus of millions is read in bounded memory.

Knows: these formats. Does not know: jobs, models.
"""

import hashlib
import math
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from jobs.addresses.address import Address, Location
from jobs.addresses.listing import find_remote
from jobs.compression import PACKINGS
from jobs.corpus.candidates import Candidate, check_ids, payload
from jobs.corpus.folder import AnyFile, CorpusFile
from jobs.corpus.payload import payload_of_candidates
from jobs.corpus.scratch import scratch_tables
from jobs.corpus.unpacking import LineFile
from jobs.documents import Record, Reject, Rejected, check_record, kind_of, quoted
from jobs.errors import CorpusError
from jobs.text.json_numbers import whole_number

PACKED = ("", *PACKINGS)

TABLES = """
CREATE TABLE queries (number INTEGER PRIMARY KEY, id TEXT UNIQUE, line INTEGER, text TEXT);
CREATE TABLE found (query INTEGER, score REAL, line INTEGER, document TEXT);
CREATE TABLE named (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE texts (id TEXT UNIQUE, text TEXT);
"""
CANDIDATES = """
SELECT document, text, score FROM found LEFT JOIN texts ON texts.id = document
WHERE query = ? ORDER BY score DESC, line
"""

ADVICE = (
    "this is a BEIR folder; to rerank it, name the first stage's run: --task rerank --run FILE (for its texts alone, "
    "name its corpus.jsonl)"
)


def is_beir(names: Collection[str]) -> bool:
    """Whether a folder with files of these names has the layout of BEIR: queries beside a corpus."""
    return all(_find(names, f"{name}.jsonl") for name in ("queries", "corpus"))


@dataclass(frozen=True, slots=True)
class BeirRun:
    """A BEIR folder and a run over it. The constructor raises CorpusError where a file is missing."""

    folder: Location
    run: Location
    files: tuple[AnyFile, AnyFile, AnyFile] = field(init=False)  # the run, the queries, the corpus

    def __post_init__(self) -> None:
        run = _run_at(self.run)
        there = _files_in(self.folder)
        object.__setattr__(self, "files", (run, self._find(there, "queries.jsonl"), self._find(there, "corpus.jsonl")))

    @property
    def source(self) -> str:
        """Both paths, for messages and for the job's row."""
        return " over ".join(
            str(path.absolute() if isinstance(path, Path) else path) for path in (self.run, self.folder)
        )

    def _find(self, files: Mapping[str, AnyFile], name: str) -> AnyFile:
        if (found := _find(files, name)) is None:
            raise CorpusError(f"{self.folder} has no {name} (nor {name}.gz); name a BEIR folder")
        return files[found]


def _run_at(run: Location) -> AnyFile:
    file = find_remote(run) if isinstance(run, Address) else CorpusFile(run, run.name)
    if isinstance(file, list) or (isinstance(run, Path) and not run.is_file()):
        raise CorpusError(f"{run}: there is no such file; check the path of the run")
    return file


def _files_in(folder: Location) -> Mapping[str, AnyFile]:
    """The files right in a folder, by their names."""
    if isinstance(folder, Address):
        found = find_remote(folder)
        return {file.name: file for file in found} if isinstance(found, list) else {}
    return {path.name: CorpusFile(path, path.name) for path in folder.glob("*.jsonl*") if path.is_file()}


def _find(names: Collection[str], name: str) -> str | None:
    """The name of a file of a BEIR folder, plain or compressed, if it is among those that there are."""
    return next((f"{name}{packing}" for packing in PACKED if f"{name}{packing}" in names), None)


class BeirReader:
    """The records of a run, and the digest of its files. Each iteration reads from the start."""

    def __init__(self, source: str, files: Sequence[CorpusFile], spool: Path) -> None:
        """`source`: its name in messages; `files`: the run, the queries, the corpus. Queries and texts are stored in an
        unlinked file in the folder `spool`."""
        self._spool = spool
        self._run, self._queries, self._corpus = (LineFile(file.path, str(file)) for file in files)
        self.source = source
        self.lines_read = 0  # not counted

    def __iter__(self) -> Iterator[Record]:
        with scratch_tables(self._spool, TABLES, "the candidates") as tables:
            self._load(tables)
            queries = tables.execute("SELECT number, id, line, text FROM queries ORDER BY number")
            for number, query_id, line, text in queries:
                rows = tables.execute(CANDIDATES, (number,))
                yield self._record(number, line, query_id, text, [Candidate(*row) for row in rows])

    @property
    def bytes_read(self) -> int:
        return self._run.bytes_read + self._queries.bytes_read + self._corpus.bytes_read

    def digest(self) -> str:
        """The digest of the three files, computed again after the last record: another one than before if a file has
        changed meanwhile."""
        return digest_of_run(file.digest or "" for file in (self._run, self._queries, self._corpus))

    def first_lines(self) -> list[bytes]:
        """Empty: a query is made of the lines of three files."""
        return []

    def line_name(self, line: int) -> str:
        """The line of the run that first names a query."""
        return f"line {line}"

    def _load(self, tables: sqlite3.Connection) -> None:
        """Read all three files into the tables."""
        tables.executemany("INSERT INTO found VALUES (?, ?, ?, ?)", self._read_run(tables))
        tables.execute("CREATE INDEX by_query ON found (query, score DESC, line)")
        tables.execute("INSERT INTO named SELECT DISTINCT document FROM found")
        tables.executemany("UPDATE queries SET text = ? WHERE id = ?", _read_texts(self._queries, has_title=False))
        tables.executemany(
            "INSERT OR REPLACE INTO texts (text, id) SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM named WHERE id = ?2)",
            _read_texts(self._corpus, has_title=True),
        )
        tables.execute("COMMIT")

    def _read_run(self, tables: sqlite3.Connection) -> Iterator[tuple[int, float, int, str]]:
        """Query number, score, line, document of each line of the run; new queries are inserted."""
        last_id, query_number = b"", -1
        for number, line in self._run:
            try:
                query_id, _, document_id, _, score, _ = line.split()
                value = float(score)
                document = document_id.decode()
                if query_id != last_id:
                    query_number, last_id = _number_of(tables, query_id.decode(), number), query_id
            except UnicodeDecodeError:
                raise self._run.error(number, "it is not UTF-8; save the run as UTF-8") from None
            except ValueError:
                what = f"{quoted(line.strip())} is not a line of a run; write `qid Q0 docid rank score tag`"
                raise self._run.error(number, what) from None
            if not math.isfinite(value):
                raise self._run.error(number, f"the score {quoted(score)} is not a finite number; write one")
            yield query_number, value, number, document
        if query_number < 0:
            raise CorpusError(f"{self._run.shown}: there is no line in it; is it the right file?")

    def _record(self, number: int, line: int, query_id: str, text: str | None, candidates: list[Candidate]) -> Record:
        if text is None:
            reason = (
                f"{Path(self._queries.shown).name} has no query {quoted(query_id)}; add it, or remove it from the run"
            )
            return Rejected(number, query_id, False, line, Reject.NO_QUERY, reason)
        if problem := check_ids(candidates):
            return Rejected(number, query_id, False, line, *problem)
        return check_record(number, line, query_id, payload_of_candidates(payload(text, candidates)), {}, "query")


def digest_of_run(digests: Iterable[str]) -> str:
    """The digest of a run over a BEIR folder, made of the digests of its three files."""
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _number_of(tables: sqlite3.Connection, query_id: str, line: int) -> int:
    """The number of a query, from 0; a new query is inserted with the `line` of the run that names it."""
    row = tables.execute("SELECT number FROM queries WHERE id = ?", (query_id,)).fetchone()
    if row is None:
        (number,) = tables.execute("SELECT count(*) FROM queries").fetchone()
        tables.execute("INSERT INTO queries VALUES (?, ?, ?, NULL)", (number, query_id, line))
        return int(number)
    return int(row[0])


def _read_texts(file: LineFile, *, has_title: bool) -> Iterator[tuple[str, str]]:
    """Text and id of each line. Of two lines with one id the last counts, as when BEIR loads the file."""
    for number, line in file:
        try:
            values = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise file.error(number, f"the line is not JSON: {error}") from None
        if type(values) is not dict:
            raise file.error(number, f'the line is {kind_of(values)}, not an object; write {{"_id": ..., "text": ...}}')
        raw_id, text = values.get("_id"), values.get("text") or ""
        text_id = whole_number(raw_id) or raw_id
        if type(text_id) is not str or not text_id:
            raise file.error(number, 'there is no id in the field "_id"; write a string')
        if type(text) is not str:
            raise file.error(number, f"the text is {kind_of(text)}, not a string")
        title: Any = values.get("title") if has_title else None
        if isinstance(title, str) and title:
            text = f"{title} {text}"  # as BEIR hands it to a model (`SentenceBERT.encode_corpus`)
        yield text.strip(), text_id
