"""The corpus of the bench of ten million documents, and the check of its export."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from bench.ten_million import compare, make_lines


def exported(folder: Path, lines: Iterable[str]) -> Path:
    """What an export of these documents is whose engine answers with their text."""
    path = folder / "export.jsonl"
    documents = map(json.loads, lines)
    path.write_text(
        "".join(json.dumps({"id": d["id"], "status": "ok", "translation": d["text"]}) + "\n" for d in documents),
        encoding="utf-8",
    )
    return path


def test_no_two_documents_of_the_corpus_are_equal() -> None:
    documents = [json.loads(line) for line in make_lines(50_000)]

    assert len({document["text"] for document in documents}) == 50_000
    assert len({document["id"] for document in documents}) == 50_000
    assert 90 < sum(len(document["text"]) for document in documents) / 50_000 < 110


def test_an_export_in_the_order_of_the_corpus_passes(tmp_path: Path) -> None:
    assert compare(5, exported(tmp_path, make_lines(5))) == 5


def test_an_export_with_two_documents_exchanged_is_refused_by_its_line(tmp_path: Path) -> None:
    first, second, third = make_lines(3)

    with pytest.raises(SystemExit, match=r"line 3 of the export .* behind document 2"):
        compare(3, exported(tmp_path, [first, third, second]))


def test_an_export_of_a_job_that_has_not_ended_passes_with_gaps(tmp_path: Path) -> None:
    first, _, third = make_lines(3)

    assert compare(2, exported(tmp_path, [first, third])) == 2


def test_an_export_with_a_text_of_another_document_is_refused(tmp_path: Path) -> None:
    first, second = map(json.loads, make_lines(2))

    with pytest.raises(SystemExit, match="line 2 of the export"):
        compare(2, exported(tmp_path, [json.dumps(first), json.dumps(second | {"text": first["text"]})]))


@pytest.mark.parametrize("lines", [2, 4])
def test_an_export_with_a_document_too_few_or_too_many_is_refused(tmp_path: Path, lines: int) -> None:
    with pytest.raises(SystemExit, match=f"the export has {lines} lines, and 3 documents"):
        compare(3, exported(tmp_path, make_lines(lines)))
