"""Which files are recognized as batch files, and what their first request says."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from jobs.corpus.corpus import Corpus
from jobs.corpus.openai.first_request import FirstRequest, find_first_request
from jobs.corpus.openai.request_kind import RequestKind
from jobs.errors import CorpusError

REQUEST: dict[str, Any] = {
    "custom_id": "a",
    "method": "POST",
    "url": "/v1/completions",
    "body": {"model": "m", "prompt": "x"},
}
FIRST = FirstRequest([RequestKind.COMPLETION], "m")


def find(path: Path, content: bytes, form: str | None = None) -> FirstRequest | None:
    path.write_bytes(content)
    return find_first_request(Corpus(path=path, format=form), is_asked=form is not None)


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def test_a_file_whose_first_line_is_a_request_is_recognized(tmp_path: Path) -> None:
    assert find(tmp_path / "a.jsonl", b"\n" + lines(REQUEST, {"id": "x"})) == FIRST
    assert find(tmp_path / "a.jsonl.gz", gzip.compress(lines(REQUEST))) == FIRST
    echo = {**REQUEST, "body": {"model": "m", "echo": True}}
    assert find(tmp_path / "a.jsonl", lines(echo)) == FirstRequest([RequestKind.ECHO], "m")


@pytest.mark.parametrize(
    "content",
    [lines({"id": 1, "text": "x"}, REQUEST), b"nonsense\n", b"[]\n", b"", lines({"custom_id": "a", "text": "x"})],
)
def test_another_file_is_no_batch_file(tmp_path: Path, content: bytes) -> None:
    assert find(tmp_path / "a.jsonl", content) is None


def test_a_file_that_is_said_to_be_one_is_searched_for_a_request_that_can_be_answered(tmp_path: Path) -> None:
    bad = {**REQUEST, "url": "/v1/embeddings"}

    assert find(tmp_path / "a", b"nonsense\n" + lines(bad, REQUEST), "openai") == FIRST


@pytest.mark.parametrize(
    ("form", "change"),
    [
        ("openai", {"custom_id": ...}),
        (None, {"url": "/v1/embeddings"}),
        (None, {"url": 7}),
        (None, {"body": {}}),
        (None, {"body": {"model": ""}}),
        (None, {"body": [1]}),
    ],
)
def test_requests_that_nobody_answers_are_refused_with_the_addresses_that_are(
    tmp_path: Path, form: str | None, change: dict[str, Any]
) -> None:
    request = {name: value for name, value in {**REQUEST, **change}.items() if value is not ...}

    with pytest.raises(CorpusError, match="/v1/rerank"):
        find(tmp_path / "a.jsonl", lines(request), form)


def test_the_first_file_of_a_folder_says_it(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_bytes(lines({"id": 1, "text": "x"}))
    (tmp_path / "a.jsonl").write_bytes(lines(REQUEST))

    assert find_first_request(Corpus(path=tmp_path), is_asked=False) == FIRST
