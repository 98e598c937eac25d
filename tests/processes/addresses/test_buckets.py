"""Corpora and results in buckets, on a real server."""

import gzip
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from jobs.addresses import download
from jobs.addresses.address import Address
from jobs.addresses.listing import RemoteFile, find_remote
from jobs.addresses.upload import uploaded
from jobs.corpus.corpus import Corpus
from jobs.corpus.reading import open_corpus, read_corpus
from jobs.errors import CorpusError, StoreError
from tests.command_line import Kvjobs, Result
from tests.faults.proxy import Proxy
from tests.messages import line_with
from tests.moto_server import Bucket


def lines(*ids: int) -> bytes:
    return b"".join(b'{"id": %d, "text": "one %d"}\n' % (number, number) for number in ids)


def ids(corpus: Corpus) -> list[str | None]:
    return [record.external_id for record in read_corpus(corpus)]


def test_an_object_is_the_same_job_as_the_file_with_its_bytes(bucket: Bucket, kvjobs: Kvjobs, tmp_path: Path) -> None:
    here = tmp_path / "corpus.jsonl.zst"
    here.write_bytes(zstandard.compress(lines(1, 2, 3)))
    address = bucket.put("in/corpus.jsonl.zst", here.read_bytes())
    first = kvjobs("submit", address, "--json").json
    assert (first["source"], first["documents"]) == (address, 3)
    assert kvjobs("submit", here, "--json").json["job_id"] == first["job_id"]


def test_a_folder_is_its_objects_in_the_order_of_people(bucket: Bucket) -> None:
    bucket.put("in/part-10.jsonl", lines(3))
    bucket.put("in/part-2.jsonl.gz", gzip.compress(lines(2)))
    bucket.put("in/a/part-1.jsonl", lines(1))
    for ignored in ("in/_SUCCESS", "in/README.md", "in/_tmp/part-0.jsonl", "in/empty/"):
        bucket.put(ignored, b"")
    for written in (f"s3://{bucket.name}/in/", f"s3://{bucket.name}/in"):
        assert ids(Corpus(path=written)) == ["1", "2", "3"]


def test_a_pattern_names_the_objects_that_it_would_name_as_files(bucket: Bucket) -> None:
    for number, key in enumerate(("in/part-1.jsonl", "in/part-2.jsonl", "in/sub/part-3.jsonl", "in/other.jsonl")):
        bucket.put(key, lines(number))
    beginning = f"s3://{bucket.name}/in"
    assert ids(Corpus(path=f"{beginning}/part-*.jsonl")) == ["0", "1"]
    assert ids(Corpus(path=f"{beginning}/part-[2-9].jsonl")) == ["1"]
    assert ids(Corpus(path=f"{beginning}/**/part-*.jsonl")) == ["0", "1", "2"]


def test_a_folder_of_more_objects_than_a_page_of_the_listing_is_read_whole(bucket: Bucket, tmp_path: Path) -> None:
    bucket.fill("many/part-{}.jsonl", lines(7), 1200)
    for path in (f"s3://{bucket.name}/many/", f"s3://{bucket.name}/many/part-*.jsonl"):
        files = Corpus(path=path).files or ()
        assert [file.name for file in files] == [f"part-{number}.jsonl" for number in range(1200)]
    with open_corpus(Corpus(path=f"s3://{bucket.name}/many/part-1*.jsonl"), tmp_path) as (contents, reader):
        assert sum(1 for _ in reader) == 1 + 10 + 100 + 200
        assert reader.digest() == contents.digest
    assert list(tmp_path.iterdir()) == []


def test_parquet_is_read_from_a_bucket(bucket: Bucket) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1, 2], "text": ["a", "b"]}), sink)
    for key in ("one.parquet", "in/part-0.parquet"):
        bucket.put(key, sink.getvalue().to_pybytes())
    assert ids(Corpus(path=f"s3://{bucket.name}/one.parquet")) == ["1", "2"]
    assert ids(Corpus(path=f"s3://{bucket.name}/in/")) == ["1", "2"]


def test_a_beir_folder_and_its_run_may_lie_in_different_places(bucket: Bucket, kvjobs: Kvjobs, tmp_path: Path) -> None:
    bucket.put("beir/queries.jsonl.gz", gzip.compress(b'{"_id": "q1", "text": "snow"}\n'))
    bucket.put("beir/corpus.jsonl", b'{"_id": "d1", "title": "", "text": "It snows."}\n')
    (tmp_path / "bm25.run").write_text("q1 Q0 d1 1 3.5 bm25\n")
    folder, run = f"s3://{bucket.name}/beir/", bucket.put("runs/bm25.run", b"q1 Q0 d1 1 3.5 bm25\n")
    there = kvjobs("submit", folder, "--task", "rerank", "--run", run, "--json").json
    assert there["source"] == f"{run} over {folder}"
    mixed = kvjobs("submit", folder, "--task", "rerank", "--run", tmp_path / "bm25.run", "--json").json
    assert mixed["job_id"] == there["job_id"]
    refused = kvjobs("submit", folder)
    assert (refused.exit_code, bool(line_with(refused.err, folder, "BEIR", "--run"))) == (2, True)


def refusal(result: Result) -> str:
    assert result.exit_code == 2, result
    assert "Traceback" not in result.err
    return result.err


def test_what_is_not_there_or_empty_is_said_with_its_address(bucket: Bucket, kvjobs: Kvjobs) -> None:
    bucket.put("in/empty.jsonl", b"")
    bucket.put("in/folder/_SUCCESS", b"")
    for address, fact in (
        (f"s3://{bucket.name}/none.jsonl", "no such file"),
        (f"s3://{bucket.name}/none/", "no such file"),
        ("s3://no-such-bucket/none.jsonl", "no such bucket"),
        ("s3://no-such-bucket/*.jsonl", "no such bucket"),
        (f"s3://{bucket.name}/in/*.csv", "no file matches"),
        (f"s3://{bucket.name}/in/empty.jsonl", "no document"),
        (f"s3://{bucket.name}/in/folder/", "no file of documents"),
    ):
        assert line_with(refusal(kvjobs("submit", address)), address, fact)
    assert kvjobs("ls", "--json").json == []


def test_a_server_that_refuses_the_user_says_so_and_which_variables_it_reads(
    bucket: Bucket, kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = bucket.put("in/a.jsonl", lines(1))
    bucket.ask_for_keys(strictly=True)
    try:
        for asked in (address, f"s3://{bucket.name}/in/", f"s3://{bucket.name}/in/*.jsonl"):
            said = refusal(kvjobs("submit", asked))
            assert line_with(said, asked, "denied", "AWS_ACCESS_KEY_ID")
            assert "not-a-secret" not in said
    finally:
        bucket.ask_for_keys(strictly=False)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("HOME", "/nowhere")
    assert line_with(refusal(kvjobs("submit", address)), address, "no credentials", "AWS_PROFILE")


def test_an_object_that_is_replaced_between_listing_and_reading_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    corpus = Corpus(path=bucket.put("in/a.jsonl", lines(1)))
    bucket.put("in/a.jsonl", lines(2))
    with pytest.raises(CorpusError, match=r"in/a\.jsonl: it changed"), open_corpus(corpus, tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_object_that_is_replaced_while_it_is_read_is_refused(bucket: Bucket) -> None:
    address = Address.parse(bucket.put("in/a.txt", b"a" * 3000))
    file = find_remote(address)
    assert isinstance(file, RemoteFile)
    pieces = download.object_pieces(file, 1 << 10)
    assert next(pieces) == (0, b"a" * 1024)
    bucket.put("in/a.txt", b"b" * 3000)
    with pytest.raises(CorpusError, match="it changed"):
        list(pieces)


def test_a_connection_that_breaks_is_resumed_where_it_broke(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(download, "MOST_BYTES", 1 << 20)
    content = b"".join(b'{"id": %d, "text": "%s"}\n' % (number, b"snow " * 200) for number in range(5000))
    address = bucket.put("in/a.jsonl", content)
    with Proxy(bucket.port) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        corpus = Corpus(path=address)
        proxy.cut_within(700_000, times=3)
        with open_corpus(corpus, tmp_path) as (contents, reader):
            assert contents.num_bytes == len(content)
            assert sum(1 for _ in reader) == 5000
        assert proxy.cuts == 3


def test_a_server_that_goes_away_for_good_ends_in_a_sentence(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr("jobs.addresses.filesystem.PAUSES_S", (0.01, 0.01))
    address = bucket.put("in/a.jsonl", lines(1))
    with Proxy(bucket.port) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        corpus = Corpus(path=address)
        proxy.drop()
        refused = pytest.raises(CorpusError, match=r"in/a\.jsonl: the server cannot be reached")
        with refused, open_corpus(corpus, tmp_path):
            pass


@pytest.fixture
def finished(bucket: Bucket, kvjobs: Kvjobs, home: Path) -> tuple[str, int]:
    """The address of a corpus and its job, whose documents were cancelled."""
    address = bucket.put("in/corpus.jsonl", lines(1, 2))
    job = kvjobs("submit", address, "--json").json["job_id"]
    assert kvjobs("cancel", job).exit_code == 0
    return address, job


def test_results_go_to_a_bucket_compressed_and_never_over_the_corpus(
    bucket: Bucket, kvjobs: Kvjobs, finished: tuple[str, int]
) -> None:
    address, job = finished
    written = kvjobs("export", job, "-o", f"s3://{bucket.name}/out/results.jsonl.zst")
    assert line_with(written.err, "2 documents", f"s3://{bucket.name}/out/results.jsonl.zst")
    unpacked = zstandard.ZstdDecompressor().stream_reader(bucket.get("out/results.jsonl.zst")).read()
    assert [json.loads(line)["id"] for line in unpacked.splitlines()] == [1, 2]
    over = kvjobs("export", job, "-o", address)
    assert (over.exit_code, bool(line_with(over.err, address, "corpus itself"))) == (2, True)
    assert bucket.get("in/corpus.jsonl") == lines(1, 2)
    for wrong, fact in (
        (f"s3://{bucket.name}/out/", "folder"),
        (f"s3://{bucket.name}/out-*.jsonl", "pattern"),
        ("s3://no-such-bucket/out.jsonl", "no such bucket"),
        ("https://127.0.0.1/out.jsonl", "s3://"),
        (f"s3://{bucket.name}/out.docx", ".docx"),
    ):
        assert line_with(refusal(kvjobs("export", job, "-o", wrong)), wrong, fact)


def test_results_do_not_go_into_the_folder_that_is_the_corpus(bucket: Bucket, kvjobs: Kvjobs) -> None:
    bucket.put("in/part-0.jsonl", lines(1))
    for corpus in (f"s3://{bucket.name}/in/", f"s3://{bucket.name}/in/*.jsonl"):
        target = f"s3://{bucket.name}/in/out.jsonl"
        said = refusal(kvjobs("submit", corpus, "--wait", "-o", target))
        assert line_with(said, target, "would become a file of the corpus", corpus)


def write(address: Address, pieces: list[bytes], then: Callable[[], object] = lambda: None) -> None:
    with uploaded(address) as target:
        for piece in pieces:
            target.write(piece)
        then()


def fail(why: str) -> NoReturn:
    raise RuntimeError(why)


def test_an_upload_that_fails_in_the_middle_leaves_what_was_there(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.addresses.upload.PART_BYTES", 5 << 20)
    address = Address.parse(bucket.put("out.jsonl", b"before"))
    for content in (b"x" * (11 << 20), b"small"):
        with pytest.raises(RuntimeError, match="in between"):
            write(address, [content], then=lambda: fail("in between"))
        assert bucket.get("out.jsonl") == b"before"
    with Proxy(bucket.port) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        with pytest.raises(StoreError, match=r"out\.jsonl: the server cannot"):
            write(address, [b"y" * (6 << 20)], then=proxy.drop)
    assert bucket.get("out.jsonl") == b"before"
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.environment["AWS_ENDPOINT_URL"])
    write(address, [b"w" * (6 << 20), b"w" * (5 << 20)])
    assert len(bucket.get("out.jsonl")) == 11 << 20
    assert bucket.keys() == ["out.jsonl"]


def test_lines_of_the_corpus_are_copied_from_the_bucket_while_they_are_unchanged(
    bucket: Bucket, kvjobs: Kvjobs, finished: tuple[str, int]
) -> None:
    address, job = finished
    odd = b'{"text": "one 1",   "id": 1}\n'
    copied = kvjobs("export", job, "--format", "original", "--only", "all")
    assert copied.out.encode() == lines(1, 2)
    bucket.put("in/corpus.jsonl", odd)
    rewritten = kvjobs("export", job, "--format", "original", "--only", "all")
    assert line_with(rewritten.err, address, "written from the database")
    assert [json.loads(line)["id"] for line in rewritten.out.splitlines()] == [1, 2]


def test_the_command_that_makes_the_job_again_has_the_address(
    bucket: Bucket, kvjobs: Kvjobs, home: Path, finished: tuple[str, int]
) -> None:
    from jobs.advice.next_command import submit_again
    from jobs.store.database import Database
    from jobs.store.report.job_summary import find_job

    address, job = finished
    database = Database.open(f"sqlite:///{home / 'kvjobs.db'}")
    with database.reading() as connection:
        words = submit_again(find_job(connection, str(job))).split()
    database.close()
    assert words[:3] == ["kvjobs", "submit", address]
    again = kvjobs(*words[1:], "--json")
    assert again.json["documents"] == 2


def test_nothing_of_the_credentials_is_stored(bucket: Bucket, home: Path, finished: tuple[str, int]) -> None:
    with closing(sqlite3.connect(home / "kvjobs.db")) as connection:
        dump = "\n".join(connection.iterdump())
    assert finished[0] in dump
    assert "not-a-secret" not in dump
    assert "AKIA" not in dump


def test_a_dry_run_reads_the_address_and_submits_nothing(bucket: Bucket, kvjobs: Kvjobs) -> None:
    address = bucket.put("in/corpus.jsonl", lines(1, 2))
    assert kvjobs("submit", address, "--dry-run", "--json").json["documents"] == 2
    assert kvjobs("ls", "--json").json == []


def test_copies_that_a_killed_submit_left_are_removed_by_the_next(bucket: Bucket, tmp_path: Path) -> None:
    left = tmp_path / "kvjobs-fetched-0123456789abcdef"
    left.mkdir()
    (left / "0000000.jsonl").write_bytes(b"secret")
    with open_corpus(Corpus(path=bucket.put("in/a.jsonl", lines(1))), tmp_path):
        (mine,) = tmp_path.iterdir()
        assert mine != left
        assert mine.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == []


MANUAL = {"a.yaml": b"snow: Snow\n", "ui/b.properties": b"rain=Rain\n", "img/logo.png": b"\x89PNG"}


def test_files_in_a_bucket_are_translated_as_files_and_all_of_them_come_back(
    bucket: Bucket, kvjobs: Kvjobs, tmp_path: Path
) -> None:
    for name, content in MANUAL.items():
        bucket.put(f"manual/{name}", content)
        (tmp_path / "manual" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "manual" / name).write_bytes(content)
    bucket.put("manual/.hidden/c.yaml", MANUAL["a.yaml"])
    job = kvjobs("submit", f"s3://{bucket.name}/manual/", "--json").json
    assert kvjobs("submit", tmp_path / "manual", "--json").json["job_id"] == job["job_id"]
    for name in MANUAL:
        bucket.client.delete_object(Bucket=bucket.name, Key=f"manual/{name}")

    assert kvjobs("export", job["job_id"], "-o", "out").exit_code == 0

    assert {name: (tmp_path / "out" / name).read_bytes() for name in MANUAL} == MANUAL
    assert not (tmp_path / "out" / ".hidden").exists()


def test_one_file_in_a_bucket_is_a_file_and_comes_back_as_one(bucket: Bucket, kvjobs: Kvjobs) -> None:
    address = bucket.put("manual/a.yaml", MANUAL["a.yaml"])
    bucket.put("manual/part.jsonl", lines(1))
    job = kvjobs("submit", address, "--json").json["job_id"]

    assert kvjobs("export", job, "-o", "a.zh.yaml").exit_code == 0
    assert Path("a.zh.yaml").read_bytes() == MANUAL["a.yaml"]
    assert kvjobs("export", job, "-o", "a.zh.md").exit_code == 2
    assert Corpus(path=f"s3://{bucket.name}/manual/*.yaml").is_translatable
    bucket.put("manual/b.properties", MANUAL["ui/b.properties"])
    with pytest.raises(CorpusError, match="--format files"):
        Corpus(path=f"s3://{bucket.name}/manual/")
