"""The example retrieval set: it equals its command's output, is complete, and is hard for a lexical first stage."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.places import EXAMPLES
from tools.demo.bm25 import K1, B, Bm25
from tools.demo.examples_retrieval import NUM_MIXED, NUM_QUESTIONS, files
from tools.demo.grammar import is_held_out, unseen_bulletins
from tools.demo.retrieval import DEPTH, retrieval_set

RETRIEVAL = EXAMPLES / "retrieval"
MAX_BYTES = 300_000


def read_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def documents() -> dict[str, str]:
    return {record["_id"]: record["text"] for record in read_lines(RETRIEVAL / "corpus.jsonl")}


@pytest.fixture(scope="module")
def queries() -> dict[str, str]:
    return {record["_id"]: record["text"] for record in read_lines(RETRIEVAL / "queries.jsonl")}


@pytest.fixture(scope="module")
def relevant() -> dict[str, str]:
    with (RETRIEVAL / "qrels" / "test.tsv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file, delimiter="\t")
    assert header == ["query-id", "corpus-id", "score"]
    assert all(score == "1" for _, _, score in rows)
    return {query: document for query, document, _ in rows}


@pytest.fixture(scope="module")
def run() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (RETRIEVAL / "bm25.run").read_text(encoding="utf-8").splitlines():
        query, q0, document, rank, _, tag = line.split(" ")
        found.setdefault(query, []).append(document)
        assert (q0, tag, int(rank)) == ("Q0", "bm25", len(found[query]))
    return found


def test_the_example_files_equal_the_output_of_their_command() -> None:
    written = files()

    assert sum(len(text.encode()) for text in written.values()) < MAX_BYTES
    for name, text in written.items():
        assert (EXAMPLES / name).read_bytes() == text.encode(), name


def test_the_relevant_document_of_every_query_is_among_its_candidates(
    documents: dict[str, str], queries: dict[str, str], relevant: dict[str, str], run: dict[str, list[str]]
) -> None:
    assert set(queries) == set(relevant) == set(run)
    assert set(relevant.values()) <= set(documents)
    for query, candidates in run.items():
        assert len(set(candidates)) == len(candidates) == DEPTH
        assert set(candidates) <= set(documents)
        assert relevant[query] in candidates


def test_bm25_often_ranks_another_document_first(relevant: dict[str, str], run: dict[str, list[str]]) -> None:
    first = sum(candidates[0] == relevant[query] for query, candidates in run.items())

    assert 0 < first < 0.5 * len(run)


def test_questions_jsonl_has_the_queries_and_candidates_of_the_retrieval_set(
    documents: dict[str, str], queries: dict[str, str], run: dict[str, list[str]]
) -> None:
    records = read_lines(EXAMPLES / "questions.jsonl")

    assert [record["id"] for record in records] == list(queries)[:NUM_QUESTIONS]
    for record in records:
        assert record["query"] == queries[record["id"]]
        assert [candidate["id"] for candidate in record["candidates"]] == run[record["id"]]
        assert all(candidate["text"] == documents[candidate["id"]] for candidate in record["candidates"])
        scores = [candidate["score"] for candidate in record["candidates"]]
        assert scores == sorted(scores, reverse=True)


def test_half_of_the_mixed_corpus_is_fluent() -> None:
    records = read_lines(EXAMPLES / "mixed.jsonl")
    fluent = {bulletin.english for bulletin in unseen_bulletins(NUM_MIXED, 22)}

    assert [record["kind"] for record in records].count("fluent") == len(records) / 2 == NUM_MIXED / 2
    assert all((record["text"] in fluent) == (record["kind"] == "fluent") for record in records)


def test_no_sentence_of_a_document_is_in_the_training_corpus() -> None:
    made = retrieval_set(40, 5, seed=3)

    for text in made.documents.values():
        sentences = [sentence + "." for sentence in text.removesuffix(".").split(". ")]
        assert all(is_held_out(sentence) for sentence in sentences)


def test_too_few_documents_for_the_queries_are_refused() -> None:
    with pytest.raises(ValueError, match="ask for fewer"):
        retrieval_set(3, 30, seed=1)


def test_bm25_equals_its_formula() -> None:
    index = Bm25({"a": "rain in Kelso, rain", "b": "snow", "c": "rain"})
    mean_length = (4 + 1 + 1) / 3

    def weight(occurrences: int, length: int) -> float:
        rarity = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
        return rarity * occurrences * (K1 + 1) / (occurrences + K1 * (1 - B + B * length / mean_length))

    assert index.best("Rain?", 3) == [
        ("c", pytest.approx(weight(1, 1), abs=1e-4)),
        ("a", pytest.approx(weight(2, 4), abs=1e-4)),
        ("b", 0.0),
    ]
