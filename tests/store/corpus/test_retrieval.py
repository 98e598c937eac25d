"""A BEIR folder and a TREC run become queries with candidates, for any order of the lines."""

import bz2
import gzip
import json
import lzma
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.corpus.beir import BeirReader, BeirRun, digest_of_run
from jobs.corpus.candidates import Candidate, read_payload
from jobs.corpus.folder import CorpusFile
from jobs.corpus.reading import hash_files
from jobs.documents import Document, Record, Reject, Rejected
from jobs.errors import CorpusError, KvjobsError
from tests.messages import line_with
from tests.repetition import times

CORPUS = [
    {"_id": "d1", "title": "Monday", "text": "It rains."},
    {"_id": "d2", "title": "", "text": " The sun shines. "},
    {"_id": "d3", "text": "Wind."},
]

QUERIES = [{"_id": "q1", "text": "rain?"}, {"_id": "q2", "text": "sun?"}]

RUN = "q2 Q0 d2 1 3.5 bm25\nq2 Q0 d1 2 1.5 bm25\nq1 Q0 d1 1 9 bm25\n"

Lines = Iterable[dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return beir(tmp_path / "beir", CORPUS, QUERIES)


def beir(folder: Path, corpus: Lines, queries: Lines) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "corpus.jsonl").write_bytes(lines_of(corpus))
    (folder / "queries.jsonl").write_bytes(lines_of(queries))
    return folder


def lines_of(rows: Lines) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def reader_of(run: BeirRun, spool: Path) -> BeirReader:
    return BeirReader(run.source, [file for file in run.files if isinstance(file, CorpusFile)], spool)


def read(folder: Path, run: str | bytes, reading: Callable[[BeirReader], None] | None = None) -> list[Record]:
    path = folder.parent / "a.run"
    path.write_bytes(run.encode() if isinstance(run, str) else run)
    found = reader_of(BeirRun(folder, path), folder.parent / "spool")
    records = list(found)
    assert not list((folder.parent / "spool").iterdir()), "nothing stays"
    if reading:
        reading(found)
    return records


def queries_of(records: list[Record]) -> list[tuple[str | None, str, list[Candidate]]]:
    assert all(isinstance(record, Document) for record in records), records
    return [(record.external_id, *read_payload(record.text)) for record in records if isinstance(record, Document)]


def test_each_query_of_the_run_is_a_document_with_its_candidates(folder: Path) -> None:
    assert queries_of(read(folder, RUN)) == [
        ("q2", "sun?", [Candidate("d2", "The sun shines.", 3.5), Candidate("d1", "Monday It rains.", 1.5)]),
        ("q1", "rain?", [Candidate("d1", "Monday It rains.", 9.0)]),
    ]
    assert [record[:4] for record in read(folder, RUN)] == [(0, "q2", False, 1), (1, "q1", False, 3)]


def test_candidates_are_ordered_by_score_as_in_trec_eval_and_not_by_line_or_rank(folder: Path) -> None:
    run = "q1 Q0 d3 1 1 x\nq2 Q0 d1 1 5 x\n\nq1 Q0 d2 2 7.5 x\nq1 Q0 d1 3 1 x\n"

    found = [(query_id, [one.id for one in candidates]) for query_id, _, candidates in queries_of(read(folder, run))]

    assert found == [("q1", ["d2", "d3", "d1"]), ("q2", ["d1"])]


IDS = st.sampled_from(["d1", "d2", "d3", "d4", "é"])


@settings(max_examples=times(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(IDS, st.text("ab \n", max_size=3))),
    st.lists(st.tuples(st.sampled_from("xyz"), IDS, st.integers(-3, 3)), min_size=1, unique_by=lambda line: line[:2]),
)
def test_the_result_equals_a_join_of_the_three_files_in_memory(
    tmp_path: Path, corpus: list[tuple[str, str]], run: list[tuple[str, str, int]]
) -> None:

    folder = beir(
        tmp_path / "some",
        ({"_id": document, "text": text} for document, text in corpus),
        ({"_id": query, "text": query * 2} for query in "xyz"),
    )
    texts = {document: text.strip() for document, text in corpus}
    order = dict.fromkeys(query for query, _, _ in run)
    by_score = sorted(run, key=lambda line: -line[2])

    records = read(folder, "".join(f"{query} Q0 {document} 0 {score} x\n" for query, document, score in run))

    assert queries_of(records) == [
        (query, query * 2, [Candidate(one, texts.get(one), float(score)) for of, one, score in by_score if of == query])
        for query in order
    ]


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [
        *((".gz", gzip.compress), (".zst", zstandard.ZstdCompressor().compress), ("", gzip.compress)),
        *((".xz", lzma.compress), (".bz2", bz2.compress)),
    ],
)
def test_compressed_files_read_the_same(folder: Path, suffix: str, pack: Callable[[bytes], bytes]) -> None:
    plain = read(folder, RUN)
    for name in ("corpus.jsonl", "queries.jsonl"):
        path = folder / name
        packed = pack(path.read_bytes())
        path.unlink()
        (folder / f"{name}{suffix}").write_bytes(packed)

    assert read(folder, pack(RUN.encode())) == plain


def test_the_digest_of_the_data_read_equals_that_of_the_files(folder: Path) -> None:
    def check(reading: BeirReader) -> None:
        files = BeirRun(folder, folder.parent / "a.run").files
        before = hash_files(files, digest_of_run)
        assert (reading.digest(), reading.bytes_read) == (before.digest, before.num_bytes)
        (folder / "queries.jsonl").write_bytes(b"")
        assert hash_files(files, digest_of_run).digest != before.digest

    read(folder, RUN, check)


def test_of_several_lines_with_one_id_the_last_counts_as_in_beir(tmp_path: Path) -> None:
    twice = [{"_id": "d1", "text": "old"}, {"_id": "d1", "text": "new"}]
    folder = beir(tmp_path / "beir", twice, [*QUERIES, {"_id": "q1", "text": "again?"}])

    assert queries_of(read(folder, "q1 Q0 d1 1 9 x")) == [("q1", "again?", [Candidate("d1", "new", 9.0)])]


def test_a_candidate_that_the_corpus_lacks_has_no_text(folder: Path) -> None:
    ((_, _, candidates),) = queries_of(read(folder, "q1 Q0 gone 1 9 x\nq1 Q0 d3 2 8 x\n"))

    assert candidates == [Candidate("gone", None, 9.0), Candidate("d3", "Wind.", 8.0)]


def test_a_query_that_the_queries_file_lacks_is_rejected_alone(folder: Path) -> None:
    unknown, known = read(folder, "q9 Q0 d1 1 9 x\nq1 Q0 d1 1 9 x\n")

    assert isinstance(known, Document)
    assert isinstance(unknown, Rejected)
    assert unknown[:5] == (0, "q9", False, 1, Reject.NO_QUERY)
    assert line_with(unknown.reason, "queries.jsonl", "'q9'")


def test_a_query_with_the_same_candidate_twice_is_rejected(folder: Path) -> None:
    (record,) = read(folder, "q1 Q0 d1 1 9 x\nq1 Q0 d2 2 8 x\nq1 Q0 d1 3 7 x\n")

    assert isinstance(record, Rejected)
    assert record.code is Reject.DUPLICATE_CANDIDATE
    assert "'d1'" in record.reason


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("q1 d1 0.5", "'q1 d1 0.5' is not a line of a run"),
        ("q1 Q0 d1 1 high x", "is not a line of a run"),
        ("q1 Q0 d1 1 2 x y", "is not a line of a run"),
        ("q1 Q0 d1 1 nan x", "the score 'nan' is not a finite number"),
        ("q1 Q0 d1 1 1e999 x", "the score '1e999' is not a finite number"),
        (b"q1 Q0 d\xff 1 2 x", "it is not UTF-8"),
    ],
)
def test_a_run_with_an_invalid_line_is_refused_and_the_line_named(folder: Path, line: str | bytes, why: str) -> None:
    line = line.encode() if isinstance(line, str) else line

    with pytest.raises(CorpusError) as error:
        read(folder, RUN.encode() + line)

    assert "a.run, line 4: " in str(error.value)
    assert why in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("corpus.jsonl", b"{", "corpus.jsonl, line 2: the line is not JSON"),
        ("corpus.jsonl", b"[1]", "corpus.jsonl, line 2: the line is a list, not an object"),
        ("corpus.jsonl", b'{"text": "x"}', 'corpus.jsonl, line 2: there is no id in the field "_id"'),
        ("corpus.jsonl", b'{"_id": "d1", "text": 3}', "corpus.jsonl, line 2: the text is a number"),
        ("queries.jsonl", b'{"_id": true, "text": "x"}', "queries.jsonl, line 2: there is no id"),
    ],
)
def test_an_invalid_line_is_refused_with_its_file_and_number(folder: Path, name: str, content: bytes, why: str) -> None:
    (folder / name).write_bytes(b'{"_id": "d9", "text": "x"}\n' + content)

    with pytest.raises(CorpusError) as error:
        read(folder, RUN)

    assert why in str(error.value)


def test_missing_and_empty_files_are_named(folder: Path) -> None:
    with pytest.raises(CorpusError, match=r"no-such: .*no such file"):
        BeirRun(folder, folder / "no-such")
    with pytest.raises(CorpusError, match="no line"):
        read(folder, "\n")
    (folder / "corpus.jsonl").write_bytes(gzip.compress(b"{}" * 1000)[:-9])
    with pytest.raises(CorpusError, match="ends too early"):
        read(folder, RUN)
    (folder / "corpus.jsonl").unlink()
    with pytest.raises(CorpusError, match=r"has no corpus\.jsonl"):
        read(folder, RUN)


def test_a_spool_that_cannot_be_used_is_an_error_that_names_it(folder: Path) -> None:
    (folder / "file").touch()
    (folder / "a.run").write_text(RUN)

    with pytest.raises(KvjobsError, match=r"candidates .*stored"):
        list(reader_of(BeirRun(folder, folder / "a.run"), folder / "file" / "spool"))


# judgements ---------------------------------------------------------------------------------------------------------


def test_scores_are_finite(folder: Path) -> None:
    (record,) = read(folder, "q1 Q0 d1 1 1e308 x\nq1 Q0 d2 2 -1e308 x\n")

    assert isinstance(record, Document)
    assert all(one.score is not None and math.isfinite(one.score) for one in read_payload(record.text)[1])
