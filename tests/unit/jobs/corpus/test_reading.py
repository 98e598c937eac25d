"""Where a corpus comes from, how it is compressed, and which files are refused."""

import bz2
import functools
import gzip
import io
import lzma
import os
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from jobs.compression import PACKINGS, compressed, packing_of
from jobs.corpus.corpus import Corpus
from jobs.corpus.corpus_format import Format
from jobs.corpus.file_reader import CorpusReader, open_bytes
from jobs.corpus.reading import read_corpus
from jobs.corpus.unpacking import HashedBytes, hash_contents
from jobs.documents import Document, Reject, Rejected
from jobs.errors import CorpusError, KvjobsError, SpecError
from tests.messages import line_with

LINES = b"".join(b'{"text": "number %d"}\n' % number for number in range(5000))


def texts(path: Path, **how: str) -> list[str]:
    return [record.text for record in read_corpus(Corpus(path=path, **how)) if isinstance(record, Document)]  # type: ignore[arg-type]


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def refusal(path: Path | str, **how: str) -> str:
    with pytest.raises(CorpusError) as caught:
        list(read_corpus(Corpus(path=path, **how)))  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.isprintable()
    return message


# formats ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.jsonl", Format.JSONL),
        ("a.JSONL.GZ", Format.JSONL),
        ("a.b.ndjson.zst", Format.JSONL),
        ("a.txt", Format.TXT),
        ("a.csv", Format.CSV),
        ("a.tsv.gz", Format.TSV),
        ("-", Format.JSONL),
    ],
)
def test_the_suffix_decides_the_format(name: str, form: Format) -> None:
    assert Corpus(path=name).read_as == form


def test_a_given_format_overrides_the_suffix() -> None:
    assert Corpus(path="a.csv", format="txt").read_as == Format.TXT


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"path": "corpus"}, "say which: --format jsonl, txt, csv, tsv, parquet"),
        ({"path": "corpus.gz"}, "say which: --format"),
        ({"path": "corpus.bin"}, "say which: --format"),
        ({"path": "corpus.parquet.gz"}, "unpack it"),
        ({"path": "a.parquet", "delimiter": ";"}, "--delimiter is for csv and tsv"),
        ({"path": "a.txt", "format": "xml"}, "known are jsonl, txt, csv, tsv, parquet"),
        ({"path": "a.csv", "id_field": "text"}, "both be in the field 'text'"),
        ({"path": "a.csv", "max_line_bytes": 0}, "smallest is 1"),
        ({"path": "a.jsonl", "delimiter": ";"}, "--delimiter is for csv and tsv"),
        (
            {"path": "a.csv", "delimiter": "::"},
            "'::' cannot be a delimiter; give one character, such as ';', or tab, comma",
        ),
        ({"path": "a.csv", "delimiter": '"'}, "give one character"),
        ({"path": "a.jsonl", "columns": ("id", "text")}, "--columns is for csv and tsv"),
        ({"path": "a.csv", "columns": ("id", "text", "id")}, "name 'id' twice"),
        ({"path": "a.csv", "columns": ("", "text")}, "give every column of the table a name"),
        ({"path": "a.csv", "columns": ("id", "body")}, "has no 'text' .* with --text-field"),
        ({"path": "a.csv", "encoding": "cp1525"}, "no encoding 'cp1525'; did you mean cp125"),
        ({"path": "a.csv", "encoding": "hex"}, "no encoding 'hex'"),
        ({"path": "a.parquet", "encoding": "cp1252"}, "leave it out"),
        ({"path": "a.csv", "max_line_bytes": 1 << 40}, "the largest"),
    ],
)
def test_contradictory_options_are_refused_before_a_file_is_opened(
    how: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(how["path"]).touch()

    with pytest.raises(SpecError, match=message):
        Corpus(**how)  # type: ignore[arg-type]


@pytest.mark.parametrize(("path", "message"), [(".", "this folder"), ("nowhere", "no such file"), ("x*", "no file")])
def test_a_missing_file_is_reported_before_a_missing_format(
    path: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(CorpusError, match=message):
        Corpus(path=path)


@pytest.mark.parametrize(("delimiter", "sign"), [(";", ";"), ("|", "|"), ("tab", "\t"), (r"\t", "\t"), ("\t", "\t")])
def test_a_table_may_have_a_delimiter_of_its_own(tmp_path: Path, delimiter: str, sign: str) -> None:
    path = written(tmp_path / "a.csv", f'id{sign}text\n1{sign}"one{sign}, two"\n'.encode())

    assert texts(path, delimiter=delimiter) == [f"one{sign}, two"]


def test_every_format_reads_the_same_documents(tmp_path: Path) -> None:
    assert (
        texts(written(tmp_path / "a.jsonl", b'{"text": "one"}\n{"text": "two"}\n'))
        == texts(written(tmp_path / "a.txt", b"one\ntwo\n"))
        == texts(written(tmp_path / "a.csv", b"text,x\none,1\ntwo,2\n"))
        == texts(written(tmp_path / "a.tsv", b"x\ttext\n1\tone\n2\ttwo\n"))
        == ["one", "two"]
    )


# compression --------------------------------------------------------------------------------------------------------


@functools.cache
def packed_forms() -> dict[str, bytes]:
    zstd = zstandard.ZstdCompressor()
    half = len(LINES) // 2
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    return {
        "a.jsonl.gz": gzip.compress(LINES),
        "b.jsonl.gz": gzip.compress(LINES[:half]) + gzip.compress(LINES[half:]) + bytes(16),
        "a.jsonl.zst": zstd.compress(LINES),
        "b.jsonl.zst": skippable + zstd.compress(LINES[:half]) + skippable + zstd.compress(LINES[half:]),
        "a.jsonl.xz": lzma.compress(LINES),
        "b.jsonl.xz": lzma.compress(LINES[:half]) + bytes(8) + lzma.compress(LINES[half:]) + bytes(4),
        "a.jsonl.bz2": bz2.compress(LINES),
        "b.jsonl.bz2": bz2.compress(LINES[:half]) + bz2.compress(LINES[half:]),
        "no-suffix-gzip.jsonl": gzip.compress(LINES),
        "no-suffix-zstd.jsonl": zstd.compress(LINES),
        "no-suffix-xz.jsonl": lzma.compress(LINES),
        "no-suffix-bzip2.jsonl": bz2.compress(LINES),
    }


@pytest.mark.parametrize("name", packed_forms())
def test_a_compressed_corpus_reads_as_its_content(tmp_path: Path, name: str) -> None:
    assert len(texts(written(tmp_path / name, packed_forms()[name]))) == 5000


@pytest.mark.parametrize("name", [f"{one}.jsonl.{suffix}" for suffix in ("gz", "zst", "xz", "bz2") for one in "ab"])
@pytest.mark.parametrize("cut", [30, 0.5, 0.9, -24])
def test_a_compressed_corpus_that_ends_too_early_is_refused(tmp_path: Path, name: str, cut: float) -> None:
    data = packed_forms()[name]
    path = written(tmp_path / name, data[: int(cut * len(data)) if isinstance(cut, float) else cut])

    assert refusal(path) == f"{path}: the compressed data ends too early; fetch or write the file again"


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst", "a.jsonl.xz", "a.jsonl.bz2"])
def test_a_compressed_corpus_that_is_damaged_is_refused(tmp_path: Path, name: str) -> None:
    data = packed_forms()[name]
    damaged = data[:40] + bytes(40) + data[80:]

    assert "file again" in refusal(written(tmp_path / name, damaged))
    assert "cannot be decompressed" in refusal(written(tmp_path / name, LINES))


def test_zstd_data_that_expands_enormously_is_read_piece_by_piece(tmp_path: Path) -> None:
    line = b'{"text": "' + b"a" * 1000 + b'"}\n'
    path = written(tmp_path / "a.jsonl.zst", zstandard.ZstdCompressor().compress(line * 20_000))

    assert path.stat().st_size < 10_000
    assert len(texts(path)) == 20_000


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress], ids=["gzip", "xz", "bzip2"])
def test_data_that_expands_enormously_takes_no_more_memory(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = written(tmp_path / "a.txt", pack(bytes(1 << 25)))

    assert path.stat().st_size < 1 << 17
    tracemalloc.start()
    records = list(read_corpus(Corpus(path=path)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert [record.code for record in records if isinstance(record, Rejected)] == [Reject.TOO_LONG]
    assert peak < 1 << 24  # 8 MiB of it are the dictionary of xz


def test_xz_data_that_asks_for_too_much_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.corpus.unpacking.XZ_MEMORY", 1 << 20)

    assert "xz -9" in refusal(written(tmp_path / "a.jsonl.xz", lzma.compress(LINES)))


# refused files ------------------------------------------------------------------------------------------------------


def test_a_missing_file_or_a_folder_is_refused_by_name(tmp_path: Path) -> None:
    missing = tmp_path / "missing.txt"

    assert refusal(missing) == f"{missing}: there is no such file; check the path"
    assert line_with(refusal(tmp_path, format="txt"), "no file", "folder")
    (tmp_path / "queries.jsonl").touch()
    (tmp_path / "corpus.jsonl.gz").touch()
    for named in ({}, {"format": "jsonl"}):
        assert "--run FILE" in refusal(tmp_path, **named)
    assert "not a path" in refusal("a\0b", format="txt")


def test_a_file_that_cannot_be_opened_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "loop.txt"
    path.symlink_to(path)

    assert line_with(refusal(path), "cannot be read", "symbolic links")


def test_a_file_whose_disk_fails_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: HashedBytes, buffer: memoryview) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(HashedBytes, "readinto", fail)

    assert "Input/output error" in refusal(written(tmp_path / "a.txt", b"x\n"))


@pytest.mark.parametrize("name", ["a.jsonl", "a.txt", "a.csv", *[f"a.jsonl{suffix}" for suffix in PACKINGS]])
@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_a_corpus_without_a_document_is_refused(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    with path.open("wb") as file, compressed(file, packing_of(path) if data else None) as target:
        target.write(data)

    assert "no document" in refusal(path)


@pytest.mark.parametrize(
    ("written_in", "said"),
    [
        *(("utf-16", "utf-16"), ("utf-32", "utf-32"), ("utf-16-le", "utf-16-le"), ("utf-16-be", "utf-16-be")),
        *(("utf-32-le", "utf-32-le"), ("utf-32-be", "utf-32-be")),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
def test_utf16_and_utf32_are_refused_by_name(
    tmp_path: Path, written_in: str, said: str, pack: Callable[[bytes], bytes]
) -> None:
    path = written(tmp_path / "a.txt", pack('{"text": "Éié"}'.encode(written_in)))

    assert f"iconv -f {said.upper()} -t" in refusal(path)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"PK\x03\x04\x14\0", "a zip archive"),
        (b"PAR1\x15\x04", "--format parquet"),
        (b"a.jsonl".ljust(257, b"\0") + b"ustar\x0000", "a tar archive"),
        (gzip.compress(b"a.jsonl".ljust(257, b"\0") + b"ustar  \0", mtime=0), "a tar archive"),
    ],
)
def test_the_file_of_another_program_is_refused_by_name(tmp_path: Path, data: bytes, said: str) -> None:
    assert said in refusal(written(tmp_path / "a.jsonl", data))


def test_an_unusable_header_is_refused_with_the_file_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"id,body\n1,x\n")

    assert refusal(path).startswith(f"{path}: the header has no column 'text'")


def test_a_name_full_of_control_characters_is_shown_escaped(tmp_path: Path) -> None:
    path = written(tmp_path / "a\x1b[2J\n.txt", b"")  # a pattern, if there were no such file

    source = Corpus(path=path).source

    assert source.isprintable()
    assert source.endswith("a\\x1b[2J\\n.txt")


# pipes --------------------------------------------------------------------------------------------------------------


def pipe(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_standard_input_is_read_as_jsonl_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, b'{"text": "one"}\n')
    assert [record.external_id for record in read_corpus(Corpus(path="-"))] == ["1"]

    pipe(monkeypatch, gzip.compress(b"one\ntwo\n"))
    assert [record.external_id for record in read_corpus(Corpus(path="-", format="txt"))] == ["1", "2"]


def test_standard_input_is_spooled_to_be_read_twice_and_the_spool_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe(monkeypatch, LINES)
    corpus, spool = Corpus(path="-"), tmp_path / "made" / "spool"

    with open_bytes(corpus, spool) as raw:
        first, second = hash_contents(raw, corpus.source), hash_contents(raw, corpus.source)
        assert list(spool.iterdir()) == []  # the spool has no name, so that not even a killed process leaves it behind

    assert first == second
    assert first.num_bytes == len(LINES)


def test_a_named_pipe_is_spooled_to_be_read_twice(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(LINES))
    writer.start()
    corpus = Corpus(path=path, format="jsonl")

    with open_bytes(corpus, tmp_path) as raw:
        assert hash_contents(raw, corpus.source) == hash_contents(raw, corpus.source)
    writer.join()


def test_a_spool_that_cannot_be_written_is_an_operational_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe(monkeypatch, LINES)
    spool = written(tmp_path / "not-a-folder", b"")

    with pytest.raises(KvjobsError, match="set KVJOBS_HOME") as caught, open_bytes(Corpus(path="-"), spool):
        pass
    assert caught.value.exit_code == 1


def test_a_closed_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)

    assert "no standard input" in refusal("-")


class Typed(io.RawIOBase):
    """A terminal at which a user typed two lines and Ctrl-D once: a further read would wait for more input."""

    def __init__(self) -> None:
        self.pieces = [b'{"id": 1, "text": "a"}\n', b'{"id": 2, "text": "b"}\n', b""]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        piece = self.pieces.pop(0)  # raises IndexError where the terminal would wait
        buffer[: len(piece)] = piece
        return len(piece)


@pytest.mark.parametrize("is_kept", [True, False], ids=["submit", "dry run"])
def test_one_ctrl_d_ends_typed_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_kept: bool) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Typed())))

    with open_bytes(Corpus(path="-"), tmp_path if is_kept else None) as raw:
        records = list(CorpusReader(Corpus(path="-"), raw))

    assert len(records) == 2
