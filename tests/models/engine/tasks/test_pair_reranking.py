"""Reranking with a cross-encoder: order, texts that cannot be scored, pairs that are cut."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import SpecError
from jobs.outcome import Flag, Ranking
from jobs.ranking import NO_TEXT
from jobs.tasks.rerank import Method, RerankOptions
from tests.cross_encoder_checkpoints import POSITIONS, write_cross_encoder_checkpoint
from worker.engine.cross_encoder.model import CrossEncoder
from worker.engine.cross_encoder.pair_reader import open_pair_reader
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.rerank.pair_reranking import PairReranker
from worker.engine.tasks.rerank.rerank_payload import BAD_PAYLOAD
from worker.model_tools.add.add import Request, add_model

TEXTS = ["rain in the north", "snow", "the wind and the sun", "rain in the north", "what is snow in the south?"]


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> PairReranker:
    folder: Path = tmp_path_factory.mktemp("pair-reranking")
    source = write_cross_encoder_checkpoint(folder / "checkpoint", "bert", seed=3)
    path = Path(add_model(Request(source=str(source), name="tiny"), folder / "models").path)
    model = CrossEncoder.open(path)
    return PairReranker(model, open_pair_reader(path, model))


def payload(query: str, texts: Sequence[str], score: float = 1.0) -> str:
    candidates = [{"id": f"d{number}", "text": text, "score": score} for number, text in enumerate(texts)]
    return json.dumps({"query": query, "candidates": candidates})


def rerank(reranker: PairReranker, *payloads: str, **options: Any) -> list[Ranking]:
    asked = RerankOptions(method=Method.CROSS_ENCODER, **options)
    outcomes = reranker.rerank(payloads, asked, RunContext()).outcomes
    assert all(isinstance(one, Ranking) for one in outcomes)
    return [one for one in outcomes if isinstance(one, Ranking)]


def scores(ranking: Ranking) -> dict[str, float]:
    return {one.id: one.score for one in ranking.candidates if one.score is not None}


def test_candidates_come_by_score_and_equal_scores_by_id(reranker: PairReranker) -> None:
    (ranking,) = rerank(reranker, payload("where is the rain?", TEXTS))

    found = [(one.score, one.id) for one in ranking.candidates]
    assert found == sorted(found, key=lambda one: (-(one[0] or 0), one[1]))
    assert scores(ranking)["d0"] == scores(ranking)["d3"]  # the same text
    assert len(set(scores(ranking).values())) == len(TEXTS) - 1
    assert all(0 < score < 1 for score in scores(ranking).values())
    assert ranking.flags == ()
    assert ranking.num_tokens == ranking.num_computed > 0


def test_neither_other_queries_nor_other_candidates_change_a_score(reranker: PairReranker) -> None:
    queries = [payload("where is the rain?", TEXTS), payload("snow?", [*TEXTS, "the sun " * 9])]

    together = rerank(reranker, *queries)

    for query, ranking in zip(queries, together, strict=True):
        read = json.loads(query)
        for one in read["candidates"]:
            alone = rerank(reranker, json.dumps(read | {"candidates": [one]}))[0]
            assert scores(ranking)[one["id"]] == pytest.approx(scores(alone)[one["id"]], abs=1e-6)


def test_a_candidate_without_text_goes_last_with_the_reason(reranker: PairReranker) -> None:
    (ranking,) = rerank(reranker, payload("rain?", ["snow", "  ", "sun"]))

    assert (ranking.candidates[2].id, ranking.candidates[2].error) == ("d1", NO_TEXT)
    assert ranking.flags == (Flag.KEPT_ORDER,)


def test_a_pair_that_is_too_long_is_cut_and_flagged(reranker: PairReranker) -> None:
    """As sentence-transformers cuts it: both texts may lose their ends."""
    ranking, short = rerank(reranker, payload("rain?", ["snow " * 200]), payload("rain?", ["snow"]))

    assert (ranking.flags, short.flags) == ((Flag.TRUNCATED,), ())
    assert ranking.num_tokens == POSITIONS
    (shorter,) = rerank(reranker, payload("rain?", ["snow " * 200]), max_length=20)
    assert shorter.num_tokens == 20


def test_fusion_mixes_in_the_first_stage(reranker: PairReranker) -> None:
    (alone,) = rerank(reranker, payload("where is the rain?", TEXTS), fusion=1.0)

    assert [one.id for one in alone.candidates] == [f"d{number}" for number in range(len(TEXTS))]


@pytest.mark.parametrize("max_length", [4, POSITIONS + 1])
def test_a_length_that_the_model_cannot_follow_is_refused(reranker: PairReranker, max_length: int) -> None:
    with pytest.raises(SpecError, match=f"max_length is {max_length},.*5 to {POSITIONS}"):
        rerank(reranker, max_length=max_length)


def test_another_payload_is_rejected_alone(reranker: PairReranker) -> None:
    options = RerankOptions(method=Method.CROSS_ENCODER)
    bad, good = reranker.rerank(["{}", payload("rain?", ["snow"])], options, RunContext()).outcomes

    assert bad == BAD_PAYLOAD
    assert isinstance(good, Ranking)
