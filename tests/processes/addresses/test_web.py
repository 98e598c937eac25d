"""Corpora on a web server, which may break off, change its mind, or ask who is there."""

import gzip
import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jobs.addresses.address import Address
from jobs.addresses.web import url_pieces
from jobs.corpus.corpus import Corpus
from jobs.corpus.reading import open_corpus, read_corpus
from jobs.errors import CorpusError
from jobs.text.formatting import size
from tests.command_line import Kvjobs
from tests.file_server import FileServer
from tests.messages import line_with

LINES = b"".join(b'{"id": %d, "text": "snow %d"}\n' % (number, number) for number in range(1000))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("jobs.addresses.web.PAUSES_S", (0.01, 0.01, 0.01))
    monkeypatch.setenv("HOME", str(tmp_path))  # the user's ~/.netrc


def read(address: str) -> bytes:
    content = bytearray()
    for position, piece in url_pieces(Address.parse(address)):
        del content[position:]
        content += piece
    return bytes(content)


def refusal(address: str) -> str:
    with pytest.raises(CorpusError) as refused:
        read(address)
    return str(refused.value)


def test_a_compressed_file_behind_a_signature_is_read_by_the_suffix_of_its_path(server: FileServer) -> None:
    server.files["/a/corpus.jsonl.gz"] = gzip.compress(LINES)
    corpus = Corpus(path=f"{server.url}/a/corpus.jsonl.gz?X-Amz-Signature=abc.def")
    assert sum(1 for _ in read_corpus(corpus)) == 1000
    assert corpus.packing == "gzip"


def test_a_file_that_comes_back_translated_is_read_by_its_name(server: FileServer, kvjobs: Kvjobs) -> None:
    server.files["/app.md"] = b"# Snow\n"
    job = kvjobs("submit", f"{server.url}/app.md?signature=secret", "--json").json

    assert (job["documents"], "secret" in str(job)) == (1, False)
    assert kvjobs("export", job["job_id"], "-o", "app.zh.md").exit_code == 0
    assert Path("app.zh.md").read_bytes() == server.files["/app.md"]


@pytest.mark.parametrize("times", [1, 3])
def test_an_answer_that_breaks_off_is_resumed_by_a_range(server: FileServer, times: int) -> None:
    server.files["/a.jsonl"], server.cuts, server.cut_after = LINES, times, 5000
    assert read(f"{server.url}/a.jsonl") == LINES
    ranges = [asked[1] for asked in server.requests]
    assert ranges == [None, *(f"bytes={5000 * number}-" for number in range(1, times + 1))]


@pytest.mark.parametrize("lacks", ["knows_ranges", "names_versions"])
def test_without_ranges_or_versions_the_file_is_read_from_its_start_again(server: FileServer, lacks: str) -> None:
    setattr(server, lacks, False)
    server.files["/a.jsonl"], server.cuts, server.cut_after = LINES, 1, 5000
    assert read(f"{server.url}/a.jsonl") == LINES
    assert len(server.requests) == 2


def test_a_file_that_changed_in_between_is_refused(server: FileServer, tmp_path: Path) -> None:
    server.files["/a.jsonl"], server.cuts, server.cut_after, server.replaces = LINES, 1, 5000, LINES.swapcase()
    with pytest.raises(CorpusError, match="it changed"), open_corpus(Corpus(path=f"{server.url}/a.jsonl"), tmp_path):
        pass
    assert list(tmp_path.glob("kvjobs-*")) == []


def test_a_server_that_breaks_off_each_time_is_given_up(server: FileServer) -> None:
    server.files["/a.jsonl"], server.cuts, server.cut_after = LINES, 100, 10
    assert "does not answer" in refusal(f"{server.url}/a.jsonl")
    assert len(server.requests) == 4


def test_a_file_whose_end_cannot_be_told_from_a_broken_connection_is_refused(server: FileServer) -> None:
    server.files["/a.jsonl"], server.says_length = LINES, False
    assert "where the file ends" in refusal(f"{server.url}/a.jsonl")


@pytest.mark.parametrize(
    ("status", "fact", "requests"), [(403, "denied", 1), (401, "denied", 1), (404, "no such file", 1), (503, "503", 4)]
)
def test_what_the_server_refuses_is_said_without_the_signature(
    server: FileServer, status: int, fact: str, requests: int
) -> None:
    server.status = status
    said = refusal(f"{server.url}/a.jsonl?X-Amz-Signature=SECRET".replace("http://", "http://user:SECRET@"))
    assert fact in said
    assert "SECRET" not in said
    assert len(server.requests) == requests


def test_redirects_lead_from_this_machine_to_itself_or_to_https_alone(server: FileServer) -> None:
    server.files["/b.jsonl"] = LINES
    server.redirects = {
        "/a.jsonl": "/b.jsonl",
        "/out.jsonl": "http://192.0.2.1/latest/meta-data",
        "/file.jsonl": "file:///etc/passwd",
        "/round.jsonl": "/round.jsonl",
    }
    assert read(f"{server.url}/a.jsonl") == LINES
    for path in ("/out.jsonl", "/file.jsonl"):
        assert "not https" in refusal(f"{server.url}{path}")
    assert "from one address to the next" in refusal(f"{server.url}/round.jsonl")


def test_a_password_goes_to_its_own_host_and_comes_from_netrc_too(server: FileServer, tmp_path: Path) -> None:
    server.files["/b.jsonl"] = LINES
    server.redirects = {"/a.jsonl": server.url.replace("127.0.0.1", "localhost") + "/b.jsonl"}
    read(server.url.replace("http://", "http://user:pass@") + "/a.jsonl")
    assert [bool(asked[2]) for asked in server.requests] == [True, False]
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login user password pass\n")
    (tmp_path / ".netrc").chmod(0o600)
    read(f"{server.url}/b.jsonl")
    assert server.requests[-1][2] == server.requests[0][2]


def test_a_signed_address_is_neither_stored_nor_shown_and_has_to_be_put_in_again(
    server: FileServer, kvjobs: Kvjobs, home: Path
) -> None:
    server.files["/a.jsonl"] = b'{"id": 1, "text": "snow"}\n'
    signed = server.url.replace("http://", "http://user:SECRET@") + "/a.jsonl?X-Amz-Signature=SECRET"
    job = kvjobs("submit", signed, "--json")
    assert job.json["documents"] == 1
    shown = kvjobs("show", job.json["job_id"])
    exported = kvjobs("export", job.json["job_id"], "--format", "original", "--only", "all")
    assert line_with(exported.err, "***@127.0.0.1", "/a.jsonl?***", "written from the database")
    with closing(sqlite3.connect(home / "kvjobs.db")) as connection:
        dump = "\n".join(connection.iterdump())
    for text in (job.out, job.err, shown.out, shown.err, exported.err, dump):
        assert "SECRET" not in text
    assert "/a.jsonl?***" in dump
    assert kvjobs("submit", f"{signed}2", "--json").json["job_id"] == job.json["job_id"]


def test_what_has_come_is_logged_and_counts_what_comes_again_once(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("jobs.addresses.download.LOG_EVERY_S", 0.0)
    server.files["/a.jsonl"], server.cuts, server.cut_after, server.knows_ranges = LINES, 1, 5000, False
    with caplog.at_level(logging.INFO, "jobs.addresses"), open_corpus(Corpus(path=f"{server.url}/a.jsonl"), tmp_path):
        pass
    assert [size(5000), size(len(LINES))] == [record.getMessage().removesuffix(" fetched") for record in caplog.records]
