"""Corpora in other encodings read as their text, and a line that is not UTF-8 says which one it looks like."""

from pathlib import Path

import pytest

from jobs.corpus.corpus import Corpus
from jobs.corpus.encodings import encoding_question
from jobs.corpus.reading import read_corpus
from jobs.documents import Document, Record, Reject


def records(path: Path, data: bytes, encoding: str | None) -> list[Record]:
    path.write_bytes(data)
    return list(read_corpus(Corpus(path=path, encoding=encoding)))


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        *(
            ("cp1252", "“Montréal”"),
            ("latin-1", "größe"),
            ("UTF-16", "雨\u2028x"),
            ("utf-16-be", "雨"),
            ("utf_32", "𝄞"),
        ),
        *(
            ("shift_jis", "雨が降る表"),
            ("gb18030", "预计有雨"),
            ("iso2022_jp", "雨が降る"),
            ("utf8", "雨"),
            ("utf-8-sig", "雨"),
        ),
    ],
)
def test_a_corpus_reads_as_its_text_in_any_encoding(tmp_path: Path, encoding: str, text: str) -> None:
    """Long enough that characters are cut by the ends of buffers, at every byte."""
    lines = [f"{text}{'x' * (number % 7)}" for number in range(20_000)]

    found = records(tmp_path / "a.txt", "\r\n".join(lines).encode(encoding), encoding)

    assert [record.text for record in found] == lines


def test_bytes_that_the_encoding_lacks_reject_their_line_alone(tmp_path: Path) -> None:
    first, second, third = records(tmp_path / "a.txt", b"Montr\xe9al\nx\x81y\n\xff\n", "cp1252")

    assert isinstance(first, Document)
    assert (first.text, second.line, third.text) == ("Montréal", 2, "ÿ")
    assert not isinstance(second, Document)
    assert second.code is Reject.BAD_UTF8
    assert "--encoding" in second.reason


def test_half_a_surrogate_pair_rejects_its_line(tmp_path: Path) -> None:
    data = "a\n".encode("utf-16-le") + b"\x3d\xd8" + "b\nc\n".encode("utf-16-le")

    assert [type(one) is Document for one in records(tmp_path / "a.txt", data, "utf-16-le")] == [True, False, True]


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        *(('{"id": 3, "text": "Montréal"}', "cp1252"), ("it’s “quoted” – yes", "cp1252"), ("Größe über Öl", "cp1252")),
        *(("Дождь в Москве", "cp1251"), ("Дождь в Москве", "koi8-r"), ("Καλημέρα κόσμε", "cp1253")),
        *(
            ("预计有雨。明天", "gb18030"),
            ("預計有雨", "big5"),
            ("雨が降る予定です。", "shift_jis"),
            ("雨が降る。", "euc_jp"),
        ),
        *(("비가 올 것입니다", "euc_kr"), ("مرحبا بالعالم", "cp1256"), ("Zażółć gęślą", "cp1250")),
    ],
)
def test_a_line_names_the_encoding_that_it_looks_like(text: str, encoding: str) -> None:
    question = encoding_question(text.encode(encoding))

    assert question.endswith(f": --encoding {encoding}?")
    assert question.split("'")[1] in text


def test_bytes_that_look_like_no_encoding_are_not_guessed() -> None:
    assert encoding_question(b"\xff\x81\x8d\x00\xfe").endswith("--encoding NAME")
