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
    assert 60 < sum(len(document["text"]) for document in documents) / 50_000 < 120


def test_an_export_in_the_order_of_the_corpus_passes(tmp_path: Path) -> None:
    assert compare(5, exported(tmp_path, make_lines(5))) == 5


def test_an_export_with_two_documents_exchanged_is_refused_by_its_line(tmp_path: Path) -> None:
    first, second, third = make_lines(3)

    with pytest.raises(SystemExit, match="line 2 of the export"):
        compare(3, exported(tmp_path, [first, third, second]))


@pytest.mark.parametrize("lines", [2, 4])
def test_an_export_with_a_document_too_few_or_too_many_is_refused(tmp_path: Path, lines: int) -> None:
    with pytest.raises(SystemExit, match=f"the export has {lines} lines, the corpus 3|line 4 of the export"):
        compare(3, exported(tmp_path, make_lines(lines)))
