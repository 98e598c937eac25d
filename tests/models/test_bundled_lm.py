"""The bundled causal model is good enough for its examples."""

import json

import pytest

from tests.places import EXAMPLES
from tools.demo.evaluate_lm import DEFAULT_MODEL, Score, by_engine, mrr, ndcg, perplexity, rerank
from tools.demo.examples_retrieval import NUM_DOCUMENTS, SEED
from tools.demo.retrieval import retrieval_set


@pytest.fixture(scope="module")
def score() -> Score:
    return by_engine(DEFAULT_MODEL)


def test_every_fluent_document_of_the_example_is_more_likely_than_every_shuffled_one(score: Score) -> None:
    records = [json.loads(line) for line in (EXAMPLES / "mixed.jsonl").read_text(encoding="utf-8").splitlines()]
    found = {
        kind: [perplexity(score, [record["text"]]) for record in records if record["kind"] == kind]
        for kind in ("fluent", "shuffled")
    }

    assert 1 < min(found["fluent"]) < max(found["fluent"]) < 50 < min(found["shuffled"])


def test_query_likelihood_finds_answers_that_bm25_does_not(score: Score) -> None:
    made = retrieval_set(NUM_DOCUMENTS, 15, SEED)  # the first queries of the example set
    before = [
        [found for found, _ in made.candidates[query]].index(document) + 1 for query, document in made.relevant.items()
    ]
    order = rerank(score, made, "query-likelihood")
    after = [order[query].index(document) + 1 for query, document in made.relevant.items()]

    assert ndcg(after) > ndcg(before) + 0.1
    assert mrr(after) > mrr(before) + 0.1
    assert all(sorted(order[query]) == sorted(found for found, _ in made.candidates[query]) for query in made.queries)
