"""Reranking with a tiny random network: sharing prefixes changes the calls, but no result."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.outcome import Flag, Ranking
from jobs.tasks.rerank import Method
from jobs.tasks.rerank import RerankOptions as Options
from tests.causal_checkpoints import write_causal_checkpoint, write_kv_model
from worker.engine.causal.native.model import NativeCausal
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.rerank.reranking import Reranker
from worker.graphs.precision import Precision
from worker.text.causal_tokenizer import CausalTokenizer

HEAD = "Read the bulletin and say which question it answers; days are easily mistaken.\n\n"
DOCUMENTS = [f"rain and snow on day {day}, and the wind turns to the north" for day in range(6)] + ["the snow", "  "]


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Reranker:
    folder: Path = tmp_path_factory.mktemp("reranking")
    checkpoint = write_causal_checkpoint(folder / "checkpoint", "qwen2", vocab_size=300, max_positions=200)
    model = NativeCausal.open(write_kv_model(checkpoint, folder / "kv", Precision.FP32))
    return Reranker(model, CausalTokenizer.open(checkpoint))


def payloads(*queries: str) -> list[str]:
    candidates = [{"id": f"d{place}", "text": text} for place, text in enumerate(DOCUMENTS)]
    return [json.dumps({"query": query, "candidates": candidates}) for query in queries]


def rerank(reranker: Reranker, lines: list[str], **options: Any) -> list[Ranking]:
    outcomes = reranker.rerank(lines, Options(**options), RunContext()).outcomes
    rankings = [outcome for outcome in outcomes if isinstance(outcome, Ranking)]
    assert len(rankings) == len(lines)
    return rankings


@pytest.mark.parametrize(
    "options",
    [
        {"method": Method.QUERY_LIKELIHOOD},
        {"method": Method.PERPLEXITY},
        {"template": HEAD + "{document}\nQuestion: {query}"},
        {"max_length": 60},
        {"method": Method.PERPLEXITY, "max_length": 60},
    ],
)
def test_sharing_changes_no_score_and_no_order(reranker: Reranker, options: dict[str, Any]) -> None:
    lines = payloads("when will the rain come to the north?", "is there snow?", "is there snow on monday?")

    shared, apart = rerank(reranker, lines, **options), rerank(reranker, lines, **options, prefix_cache=False)

    assert sum(one.num_shared for one in shared) > 0
    for one, other in zip(shared, apart, strict=True):
        assert [found.id for found in one.candidates] == [found.id for found in other.candidates]
        assert [found.score for found in one.candidates] == pytest.approx(
            [found.score for found in other.candidates], abs=1e-5
        )
        assert one.num_computed + one.num_shared == other.num_computed
        assert one.candidates[-1].error, "the empty candidate keeps its rank"
        assert Flag.KEPT_ORDER in one.flags
        assert (Flag.TRUNCATED in one.flags) is ("max_length" in options)


def test_a_query_is_ranked_the_same_alone_and_in_a_batch(reranker: Reranker) -> None:
    lines = payloads("when will the rain come to the north?", "is there snow?")

    for line, together in zip(lines, rerank(reranker, lines), strict=True):
        (alone,) = rerank(reranker, [line])
        assert [found.id for found in together.candidates] == [found.id for found in alone.candidates]
        assert [found.score for found in together.candidates] == pytest.approx(
            [found.score for found in alone.candidates], abs=1e-5
        )
