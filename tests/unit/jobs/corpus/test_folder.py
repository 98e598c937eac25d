"""A folder of files, or a pattern, is read as one corpus: their order, their lines, and what is left out."""

import gzip
import random
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from jobs.corpus.corpus import Corpus
from jobs.corpus.corpus_format import Format
from jobs.corpus.folder import natural_key
from jobs.corpus.reading import open_corpus, read_corpus
from jobs.documents import Document, Record, Rejected
from jobs.errors import CorpusError, SpecError
from tests.messages import line_with


def line(text: str) -> str:
    return f'{{"text": "{text}"}}\n'


def written(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        if name.endswith(".gz"):
            data = gzip.compress(data)
        if name.endswith(".zst"):
            data = zstandard.compress(data)
        path.write_bytes(data)
    return folder


def read(path: Path | str, **how: Any) -> list[Record]:
    return list(read_corpus(Corpus(path=path, **how)))


def texts(path: Path | str, **how: Any) -> list[str]:
    return [record.text for record in read(path, **how) if isinstance(record, Document)]


def refusal(path: Path | str, **how: Any) -> str:
    with pytest.raises((CorpusError, SpecError)) as caught:
        read(path, **how)
    assert str(caught.value).isprintable()
    return str(caught.value)


# which files, in which order ------------------------------------------------------------------------------------------


def test_files_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = [f"part-{number}.jsonl.gz" for number in (0, 1, 2, 10, 11, 100)]
    files = {name: line(name) for name in names}
    shuffled = list(files.items())
    random.Random(1).shuffle(shuffled)

    assert texts(written(tmp_path, dict(shuffled))) == names


def test_folders_in_the_folder_are_read_in_their_order(tmp_path: Path) -> None:
    names = ["lang=de/part-0.jsonl", "lang=de/part-1.jsonl", "lang=en/part-0.jsonl", "z.jsonl"]

    assert texts(written(tmp_path, {name: line(name) for name in reversed(names)})) == names


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)))
def test_any_names_have_one_order(names: list[str]) -> None:
    assert sorted(names, key=natural_key) == sorted(sorted(names), key=natural_key)


def test_what_tools_put_beside_a_data_set_is_left_out(tmp_path: Path) -> None:
    beside = ("_SUCCESS", ".part-0.jsonl.crc", "README.md", "LICENSE", "dataset_info.json", "_temporary/part-9.jsonl")
    hidden = (".cache/part-8.jsonl", "_metadata", "config.yaml", "README")
    written(tmp_path, {name: line("no") for name in (*beside, *hidden)})

    assert texts(written(tmp_path, {"part-0.jsonl": line("yes")})) == ["yes"]


def test_plain_and_compressed_files_mix(tmp_path: Path) -> None:
    written(tmp_path, {"1.jsonl": line("one"), "2.jsonl.gz": line("two"), "3.jsonl.zst": line("three")})

    assert texts(tmp_path) == ["one", "two", "three"]


def test_a_pattern_names_some_of_the_files(tmp_path: Path) -> None:
    written(
        tmp_path, {"a-2.jsonl": line("a2"), "a-10.jsonl": line("a10"), "b-1.jsonl": line("b"), "x.csv": "text\nc\n"}
    )
    written(tmp_path, {"deep/er/a-3.jsonl": line("a3")})

    assert texts(f"{tmp_path}/a-*.jsonl") == ["a2", "a10"]
    assert texts(f"{tmp_path}/**/a-?.jsonl") == ["a2", "a3"]
    assert "no file matches" in refusal(f"{tmp_path}/c-*.jsonl")


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    written(tmp_path, {"a[1].jsonl": line("this"), "a1.jsonl": line("that")})

    assert texts(tmp_path / "a[1].jsonl") == ["this"]


def test_files_without_a_suffix_are_read_where_the_format_is_said(tmp_path: Path) -> None:
    written(tmp_path, {"part-00000": line("one"), "part-00001.json": line("two"), "_SUCCESS": ""})

    assert texts(tmp_path, format="jsonl") == ["one", "two"]
    assert line_with(refusal(tmp_path), "'part-00000'", "no suffix", "--format")


def test_several_formats_are_refused(tmp_path: Path) -> None:
    written(tmp_path, {"a.jsonl": line("one"), "b.csv": "text\ntwo\n"})

    assert line_with(refusal(tmp_path), "jsonl ('a.jsonl')", "csv ('b.csv')")
    assert line_with(refusal(tmp_path, format="jsonl"), "jsonl (--format)", "csv ('b.csv')")
    assert "no format 'xml'" in refusal(tmp_path, format="xml")


def test_a_folder_without_documents_is_refused(tmp_path: Path) -> None:
    assert line_with(refusal(written(tmp_path, {"_SUCCESS": ""})), "no file", "folder")
    assert "no document" in refusal(written(tmp_path, {"a.jsonl": "\n"}))


def test_a_link_to_nowhere_is_refused_by_name(tmp_path: Path) -> None:
    written(tmp_path, {"a.jsonl": line("one")})
    (tmp_path / "b.jsonl").symlink_to("gone")

    assert line_with(refusal(tmp_path), "'b.jsonl'", "not a file")


def test_every_format_may_come_in_a_folder(tmp_path: Path, parquet_here: None) -> None:
    from tests.parquet_files import write_parquet

    written(tmp_path / "csv", {"1.csv": "id,text\na,one\n", "2.csv": "text,id\ntwo,b\n"})
    written(tmp_path / "tsv", {"1.tsv": "text\none\n", "2.tsv": "text\ntwo\n"})
    written(tmp_path / "txt", {"1.txt": "one", "2.txt": "two"})
    (tmp_path / "parquet").mkdir()
    for number, text in enumerate(["one", "two"]):
        write_parquet(tmp_path / "parquet" / f"{number}.parquet", {"text": [text]})

    for form in (Format.CSV, Format.TSV, Format.TXT, Format.PARQUET):
        assert texts(tmp_path / form) == ["one", "two"], form


# places -------------------------------------------------------------------------------------------------------------


def test_positions_and_lines_are_counted_on_from_file_to_file(tmp_path: Path) -> None:
    """Lines as of `cat`, a last line without its end included; the id of a document without one is that line."""
    written(
        tmp_path, {"1.jsonl": f"\n{line('one')}", "2.jsonl": line("two").rstrip(), "3.jsonl": "", "4.jsonl": line("x")}
    )

    places = [(record.position, record.line, record.external_id) for record in read(tmp_path)]

    assert places == [(0, 2, "2"), (1, 3, "3"), (2, 4, "4")]


def test_an_id_of_the_corpus_stays_even_where_it_looks_like_a_line(tmp_path: Path) -> None:
    written(tmp_path, {"1.jsonl": line("one"), "2.jsonl": '{"id": 1, "text": " "}\n{"text": ""}\n'})

    assert [record.external_id for record in read(tmp_path)] == ["1", "1", "3"]


def test_a_bad_line_is_named_with_its_file_and_its_line_there(tmp_path: Path) -> None:
    written(tmp_path, {"part-0.jsonl": line("one"), "part-1.jsonl": f"{line('two')}no\n"})

    bad = read(tmp_path)[-1]

    assert isinstance(bad, Rejected)
    assert bad.line == 3
    assert bad.reason.endswith("(line 2 of part-1.jsonl)")


def test_a_file_that_cannot_be_unpacked_is_named(tmp_path: Path) -> None:
    written(tmp_path, {"1.jsonl": line("one"), "2.jsonl.gz": line("two") * 9})
    packed = tmp_path / "2.jsonl.gz"
    packed.write_bytes(packed.read_bytes()[:-10])

    assert refusal(tmp_path).startswith(f"{packed}: the compressed data ends too early")


def test_a_later_table_without_the_column_is_named(tmp_path: Path) -> None:
    written(tmp_path, {"1.csv": "text\none\n", "2.csv": "body\ntwo\n"})

    assert refusal(tmp_path).startswith(f"{tmp_path}/2.csv: the header has no column 'text'")


def test_the_digest_is_that_of_all_files_in_their_order(tmp_path: Path) -> None:
    def digest(folder: Path) -> str:
        with open_corpus(Corpus(path=folder), tmp_path) as (contents, reader):
            assert len(list(reader)) == 2
            assert reader.digest() == contents.digest
            assert reader.bytes_read == contents.num_bytes
            assert reader.lines_read == 2
            return contents.digest

    first = digest(written(tmp_path / "a", {"1.jsonl": line("one"), "2.jsonl": line("two")}))

    assert digest(written(tmp_path / "b", {"x-1.jsonl": line("one"), "x-2.jsonl": line("two")})) == first
    assert digest(written(tmp_path / "c", {"2.jsonl": line("one"), "1.jsonl": line("two")})) != first
    assert digest(written(tmp_path / "d", {"1.jsonl": line("one") + line("two")})) != first
