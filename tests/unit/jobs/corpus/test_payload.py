"""The payload of a line: a pair, or a query with candidates; and lines that have neither."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.corpus.corpus import Corpus
from jobs.corpus.reading import read_corpus
from jobs.documents import Document, Rejected, estimate_tokens
from jobs.errors import CorpusError, SpecError
from jobs.tasks.kind import PayloadKind

PAIR = {"source": "It rains.", "target": "下雨。"}
LINES = {
    "a.jsonl": '{"id": "a", "source": "It rains.", "note": "n", "target": "下雨。"}\n',
    "a.csv": "note,target,id,source\nn,下雨。,a,It rains.\n",
    "a.tsv": "id\tsource\ttarget\tnote\na\tIt rains.\t下雨。\tn\n",
}


def read(folder: Path, name: str, content: str, **how: Any) -> list[Any]:
    (folder / name).write_text(content, encoding="utf-8")
    return list(read_corpus(Corpus(path=folder / name, **how)))


@pytest.mark.parametrize("name", LINES)
def test_a_pair_is_a_source_and_its_target_in_every_format(tmp_path: Path, name: str) -> None:
    (document,) = read(tmp_path, name, LINES[name], payload_kind=PayloadKind.PAIRS)

    assert json.loads(document.text) == PAIR
    assert (document.external_id, document.fields) == ("a", '{"note":"n"}')
    assert document.estimated_tokens == estimate_tokens(PAIR["source"]) + estimate_tokens(PAIR["target"])


def test_the_fields_of_a_pair_may_have_other_names(tmp_path: Path) -> None:
    how = {"payload_kind": PayloadKind.PAIRS, "source_field": "en", "target_field": "text"}

    (document,) = read(tmp_path, "a.jsonl", '{"en": "It rains.", "text": "下雨。", "source": "wiki"}', **how)

    assert json.loads(document.text) == PAIR
    assert document.fields == '{"source":"wiki"}'
    assert document.unnamed


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ('{"id": 1, "source": "x"}', "no-text", "'target'"),
        ('{"id": 1, "target": "x", "tgt": "y"}', "no-text", "name the right one with --source-field"),
        ('{"id": 1, "source": " ", "target": "x"}', "empty-text", "'source'"),
        ('{"id": 1, "source": "x", "target": ""}', "empty-text", "'target'"),
        ('{"id": 1, "source": "x", "target": 7}', "text-type", "'target' is a number"),
        ('{"id": 1, "source": "x", "target": "a\\u0000b"}', "nul", "the target holds a NUL"),
        ('{"id": 1, "source": "x", "target": "\\ud800"}', "lone-surrogate", "surrogate"),
    ],
)
def test_a_pair_that_lacks_a_side_is_rejected_with_the_reason(tmp_path: Path, line: str, code: str, says: str) -> None:
    (rejected,) = read(tmp_path, "a.jsonl", line, payload_kind=PayloadKind.PAIRS)

    assert isinstance(rejected, Rejected)
    assert rejected.code == code
    assert says in rejected.reason


def test_a_table_without_a_side_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"no column 'target' .* --target-field"):
        read(tmp_path, "a.csv", "id,source\n1,x\n", payload_kind=PayloadKind.PAIRS)


def test_a_query_is_estimated_with_each_of_its_candidates(tmp_path: Path) -> None:
    candidates = [{"id": str(n), "text": "word " * 80} for n in range(100)]
    line = json.dumps({"id": "q", "query": "words " * 10, "candidates": candidates})

    (document,) = read(tmp_path, "q.jsonl", line, payload_kind=PayloadKind.CANDIDATES)

    assert document.estimated_tokens == 100 * (100 + 15)
    assert json.loads(document.text)["candidates"] == candidates


def test_a_query_with_candidates_may_be_longer_than_any_text(tmp_path: Path) -> None:
    candidates = [{"id": str(n), "text": "x" * 3000} for n in range(1000)]
    line = json.dumps({"query": "q", "candidates": candidates})

    assert isinstance(read(tmp_path, "q.jsonl", line, payload_kind=PayloadKind.CANDIDATES)[0], Document)
    assert isinstance(read(tmp_path, "t.jsonl", line, text_field="query")[0], Rejected)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('{"id": 1, "query": "q", "candidates": []}', "no-candidates"),
        ('{"id": 1, "query": "q"}', "no-candidates"),
        ('{"id": 1, "candidates": [{"id": "a", "text": "x"}]}', "no-query"),
        (
            '{"id": 1, "query": "", "candidates": [{"id": 2, "text": ""}, {"id": 2, "text": ""}]}',
            "duplicate-candidate",
        ),
    ],
)
def test_a_line_that_cannot_be_reranked_is_rejected(tmp_path: Path, line: str, code: str) -> None:
    (rejected,) = read(tmp_path, "a.jsonl", line, payload_kind=PayloadKind.CANDIDATES)

    assert (rejected.external_id, rejected.code) == ("1", code)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"path": "a.txt", "payload_kind": PayloadKind.PAIRS}, "needs two fields"),
        ({"path": "a.csv", "payload_kind": PayloadKind.CANDIDATES}, "written in jsonl"),
        (
            {"path": "a.jsonl", "payload_kind": PayloadKind.PAIRS, "source_field": "target"},
            "both be in the field 'target'",
        ),
        ({"path": "a.jsonl", "run": "x.run"}, "whose queries are reranked"),
    ],
)
def test_options_that_no_reader_supports_are_refused_before_a_file_is_opened(how: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        Corpus(**how)
