"""Relevance judgements in the formats of BEIR and TREC."""

from pathlib import Path

import pytest

from jobs.errors import CorpusError
from jobs.retrieval.metrics import read_qrels


@pytest.mark.parametrize(
    "content",
    [
        "q1 0 d1 2\nq1 0 d2 0\nq2 0 d1 -1\n",
        "q1\t0\td1\t2\n\nq1\t0\td2\t0\nq2\t0\td1\t-1",
        "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq2\td1\t-1\n",
        "q1 0 d1 2.0\nq1 0 d2 0.0\nq2 0 d1 -1.0\n",
        "q1\td1\t2\r\nq1\td2\t0\r\nq2\td1\t-1\r\n",
    ],
)
def test_judgements_of_both_formats_are_read(tmp_path: Path, content: str) -> None:
    (tmp_path / "qrels").write_text(content, newline="")

    assert read_qrels(tmp_path / "qrels") == {"q1": {"d1": 2, "d2": 0}, "q2": {"d1": -1}}


@pytest.mark.parametrize("line", ["q1 0 d1 high", "q1 d1", "q1", "q1 0 d1 1 x", "q1 0 d1 1.5"])
def test_a_line_that_is_not_a_judgement_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    (tmp_path / "qrels").write_text(f"q1 0 d1 1\n{line}\n")

    with pytest.raises(CorpusError, match=r"qrels, line 2: .*judgement"):
        read_qrels(tmp_path / "qrels")


def test_a_first_line_that_is_not_a_header_has_to_be_a_judgement(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q1 0 d1 high\nq1 0 d2 1\n")

    with pytest.raises(CorpusError, match=r"qrels, line 1: .*judgement"):
        read_qrels(tmp_path / "qrels")


def test_a_file_without_judgements_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("query-id\tcorpus-id\tscore\n")

    with pytest.raises(CorpusError, match="no judgement"):
        read_qrels(tmp_path / "dev.tsv")
