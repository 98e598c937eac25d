"""Reranking with a hashing model: what is scored, what is shared, and what becomes of candidates without a score."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import ModelError, SpecError, Stopped
from jobs.outcome import Failed, Flag, RankedCandidate, Ranking
from jobs.ranking import NO_FIRST_SCORE, NO_TEXT, NON_FINITE, NOT_IN_CORPUS
from jobs.tasks.rerank import Method, RerankOptions
from jobs.tasks.shared_options import Timing
from tests.unit.worker.engine.tasks.readers import BOS, ByteTokenizer, HashingModel
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.rerank.prompt_templates import TEMPLATES
from worker.engine.tasks.rerank.rerank_payload import NO_QUERY
from worker.engine.tasks.rerank.reranking import NO_TOKEN, Reranker

BELL = 7  # a byte of a text: tests break the model so that everything after it is not finite
HEAD = "Which bulletin answers the question? Read with care, for the days are easily mistaken. Document: "

TEXTS = st.text("ab {}\n", max_size=6) | st.sampled_from(["rain on monday", "rain on sunday", " ", "{query}", "é"])
CANDIDATES = st.lists(st.tuples(TEXTS | st.none(), st.none() | st.floats(-9, 9)), min_size=1, max_size=5)
QUERIES = st.lists(st.tuples(TEXTS, CANDIDATES), min_size=1, max_size=4)


def payload(query: str | None, *candidates: str | None, scores: list[float | None] | None = None) -> str:
    """A line with candidates whose ids are a, b, c, ..."""
    scores = scores or [None] * len(candidates)
    return json.dumps(
        {
            "query": query,
            "candidates": [
                {"id": name, "text": text} | ({} if score is None else {"score": score})
                for name, text, score in zip("abcdefghij", candidates, scores, strict=False)
            ],
        }
    )


def rerank(
    *payloads: str, model: HashingModel | None = None, bos_id: int | None = BOS, **options: Any
) -> list[Ranking]:
    reranker = Reranker(model or HashingModel(), ByteTokenizer(bos_id))
    produced = reranker.rerank(payloads, RerankOptions(**options), RunContext())
    assert not produced.learned
    rankings = [outcome for outcome in produced.outcomes if isinstance(outcome, Ranking)]
    assert len(rankings) == len(payloads)
    return rankings


def by_id(ranking: Ranking) -> dict[str, RankedCandidate]:
    return {one.id: one for one in ranking.candidates}


def mean_log_prob(given_text: str, scored: str, bos_id: int | None = BOS) -> float:
    """The mean log-probability of the scored text, calculated without an engine."""
    start = [] if bos_id is None else [bos_id]
    ids, first = [*start, *(given_text + scored).encode()], len(start) + len(given_text.encode())
    model = HashingModel()
    return math.fsum(model.log_prob(ids[:place], ids[place]) for place in range(first, len(ids))) / (len(ids) - first)


# what is scored -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bos_id", [BOS, None])
@pytest.mark.parametrize("prefix_cache", [True, False])
def test_the_score_is_the_mean_log_probability_of_the_scored_tokens(bos_id: int | None, prefix_cache: bool) -> None:
    line = payload("what day?", "rain on monday", "sun")

    (likelihood,) = rerank(line, bos_id=bos_id, prefix_cache=prefix_cache)
    (perplexity,) = rerank(line, bos_id=bos_id, prefix_cache=prefix_cache, method=Method.PERPLEXITY)
    (own,) = rerank(line, bos_id=bos_id, prefix_cache=prefix_cache, template="{document} -> {query}")

    assert by_id(likelihood)["a"].score == pytest.approx(
        mean_log_prob("Document: rain on monday\nQuery:", " what day?", bos_id), rel=1e-6
    )
    assert by_id(perplexity)["b"].score == pytest.approx(
        mean_log_prob("Query: what day?\nDocument:", " sun", bos_id), rel=1e-6
    )
    assert by_id(own)["b"].score == pytest.approx(mean_log_prob("sun ->", " what day?", bos_id), rel=1e-6)
    assert likelihood.num_tokens == 2 * len(" what day?")
    assert perplexity.num_tokens == len(" rain on monday") + len(" sun")


@given(
    QUERIES, st.sampled_from(list(TEMPLATES)), st.sampled_from([0.0, 0.4]), st.sampled_from([None, 30, 45]),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_sharing_changes_no_score_and_no_order(
    queries: list[tuple[str, list[tuple[str | None, float | None]]]],
    method: Method,
    fusion: float,
    max_length: int | None,
    has_head: bool,
    is_broken: bool,
) -> None:
    template = f"{HEAD}{{document}} Query: {{query}}" if has_head and method is Method.QUERY_LIKELIHOOD else None
    options = {"method": method, "fusion": fusion, "max_length": max_length, "template": template}
    lines = [
        payload(query, *(text for text, _ in found), scores=[score for _, score in found]) for query, found in queries
    ]
    model = HashingModel(broken={ord("b"): math.nan} if is_broken else None)

    shared, apart = rerank(*lines, **options, model=model), rerank(*lines, **options, model=model, prefix_cache=False)

    for one, other in zip(shared, apart, strict=True):
        assert one.candidates == other.candidates
        assert (one.flags, one.num_tokens) == (other.flags, other.num_tokens)
        assert one.num_computed + one.num_shared == other.num_computed
        assert other.num_shared == 0


def test_a_query_is_ranked_the_same_alone_and_in_a_batch() -> None:
    lines = [payload(query, *(f"{day} {HEAD}" for day in ("mon", "tue", "sun"))) for query in ("when?", "why?", "who?")]

    together = rerank(*lines)

    assert [one.candidates for one in together] == [rerank(line)[0].candidates for line in lines]


def test_ties_are_ordered_by_id() -> None:
    (ranking,) = rerank(payload("why?", "same", "other", "same", "same"))

    same = [one.id for one in ranking.candidates if one.id != "b"]
    assert same == ["a", "c", "d"]
    assert len({one.score for one in ranking.candidates}) == 2


# what is shared -----------------------------------------------------------------------------------------------------


def test_the_query_is_computed_once_for_all_its_candidates() -> None:
    model = HashingModel()
    query, texts = "what is the weather on monday?", [f"it rains on day {day}" for day in range(8)]

    (ranking,) = rerank(payload(query, *texts), model=model, method=Method.PERPLEXITY)

    (group,) = model.read
    assert bytes(group.prefix[1:]).decode() == f"Query: {query}\nDocument:"
    assert ranking.num_shared == 7 * len(group.prefix)
    assert ranking.num_computed == len(group.prefix) + sum(map(len, group.suffixes))


def test_a_document_is_computed_once_for_all_queries() -> None:
    model = HashingModel()
    document = "it rains on monday and the wind turns north, " * 3

    rankings = rerank(*(payload(query, document) for query in ("when?", "why?", "who?")), model=model)

    (group,) = model.read
    assert bytes(group.prefix[1:]).decode() == f"Document: {document}\nQuery:"
    assert [one.num_shared for one in rankings] == [0, len(group.prefix), len(group.prefix)]


def test_a_long_template_prefix_is_computed_once_for_different_documents() -> None:
    model = HashingModel()
    template = HEAD + "{document} Query: {query}"

    (ranking,) = rerank(payload("why?", "rain", "sun", "wind"), model=model, template=template)

    (group,) = model.read
    assert bytes(group.prefix[1:]).decode() == HEAD, "the space after it is shared too"
    assert ranking.num_shared == 2 * len(group.prefix)
    assert ranking.num_tokens == 3 * len(" why?"), "the text after the prefix is given, not scored"


def test_the_same_pair_is_computed_once() -> None:
    model = HashingModel()

    rankings = rerank(payload("why?", "rain", "rain"), payload("why?", "rain"), model=model)

    assert len(model.read) == 1
    assert [one.num_computed for one in rankings] == [len(model.read[0].prefix) + len(" why?"), 0]
    assert len({one.score for ranking in rankings for one in ranking.candidates}) == 1


def test_a_text_is_tokenized_once() -> None:
    tokenizer = ByteTokenizer()

    Reranker(HashingModel(), tokenizer).rerank(
        [payload("why?", "rain", "sun"), payload("who?", "rain", "sun")], RerankOptions(), RunContext()
    )

    assert sorted(tokenizer.encoded) == sorted(set(tokenizer.encoded))


# too long -----------------------------------------------------------------------------------------------------------


def test_a_document_that_is_too_long_is_truncated() -> None:
    given_text, scored = "Document: rain on mo\nQuery:", " why?"
    max_length = 1 + len(given_text) + len(scored)

    (cut,) = rerank(payload("why?", "rain on monday", "rain"), max_length=max_length)
    (shorter,) = rerank(payload("why?", "rain on mo", "rain"), max_length=max_length)

    assert cut.candidates == shorter.candidates
    assert (cut.flags, shorter.flags) == ((Flag.TRUNCATED,), ())


def test_a_scored_document_that_is_too_long_is_truncated() -> None:
    max_length = 1 + len("Query: why?\nDocument: rain on mo")

    (cut,) = rerank(payload("why?", "rain on monday", "rain"), max_length=max_length, method=Method.PERPLEXITY)
    (shorter,) = rerank(payload("why?", "rain on mo", "rain"), max_length=max_length, method=Method.PERPLEXITY)

    assert cut.candidates == shorter.candidates
    assert cut.num_tokens == shorter.num_tokens
    assert (cut.flags, shorter.flags) == ((Flag.TRUNCATED,), ())


@pytest.mark.parametrize("method", TEMPLATES)
def test_if_the_query_alone_is_too_long_its_candidates_keep_their_order(method: Method) -> None:
    long, short = payload("why? " * 20, "rain", "sun"), payload("why?", "rain", "sun")

    kept, ranked = rerank(long, short, max_length=60, method=method)

    assert [one.id for one in kept.candidates] == ["a", "b"]
    assert {one.error for one in kept.candidates} == {"the query alone fills the 60 tokens that a sequence may have"}
    assert kept.flags == (Flag.KEPT_ORDER,)
    assert (kept.num_tokens, kept.num_computed, kept.num_shared) == (0, 0, 0)
    assert ranked == rerank(short, method=method)[0]


def test_the_length_limit_is_that_of_the_model_and_a_higher_one_is_refused() -> None:
    (ranking,) = rerank(payload("why?", "x" * 500), model=HashingModel(max_positions=100))
    assert ranking.flags == (Flag.TRUNCATED,)
    assert ranking.num_computed == 100

    with pytest.raises(SpecError, match=r"max_length is 101.*100 tokens"):
        rerank(payload("why?", "x"), model=HashingModel(max_positions=100), max_length=101)


# what cannot be scored ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_candidate_with_a_non_finite_score_keeps_its_rank_and_affects_no_other(value: float) -> None:
    model = HashingModel(broken={BELL: value})
    line = payload("why?", "rain", "wi\x07nd", "sun")

    (ranking,), (sound,) = rerank(line, model=model), rerank(payload("why?", "rain", "wind", "sun"))

    assert ranking.candidates[1] == RankedCandidate("b", 2, None, None, NON_FINITE)
    assert [by_id(ranking)[name].score for name in "ac"] == [by_id(sound)[name].score for name in "ac"]
    assert ranking.flags == (Flag.KEPT_ORDER,)
    assert ranking.num_tokens == 2 * len(" why?")


@pytest.mark.parametrize(("text", "why"), [("", NO_TEXT), (" \n", NO_TEXT), (None, NOT_IN_CORPUS)])
def test_a_candidate_without_text_goes_last(text: str | None, why: str) -> None:
    (ranking,) = rerank(payload("why?", text, "sun", "rain"))

    assert ranking.candidates[2] == RankedCandidate("a", 3, None, None, why)
    assert {one.error for one in ranking.candidates[:2]} == {None}


@pytest.mark.parametrize("query", ["", " \t", None])
def test_without_a_query_the_order_of_the_first_stage_is_kept(query: str | None) -> None:
    (ranking,) = rerank(payload(query, "rain", "sun", scores=[1.0, 2.0]))

    assert ranking.candidates == (
        RankedCandidate("a", 1, None, 1.0, NO_QUERY),
        RankedCandidate("b", 2, None, 2.0, NO_QUERY),
    )
    assert ranking.flags == (Flag.KEPT_ORDER,)


def test_a_text_without_tokens_is_not_scored() -> None:
    class DroppingTokenizer(ByteTokenizer):
        def encode(self, text: str) -> Any:
            return super().encode("" if "?" in text else text)

    reranker = Reranker(HashingModel(), DroppingTokenizer(bos_id=None))
    (ranking,) = reranker.rerank([payload("why?", "rain")], RerankOptions(), RunContext()).outcomes

    assert isinstance(ranking, Ranking)
    assert ranking.candidates[0].error == NO_TOKEN


def test_fusion_combines_both_stages_and_needs_both_scores() -> None:
    texts, scores = ("rain", "sun", "wind"), [3.0, 1.0, 2.0]

    (model_alone,) = rerank(payload("why?", *texts, scores=scores))
    (first_alone,) = rerank(payload("why?", *texts, scores=scores), fusion=1.0)
    (partly,) = rerank(payload("why?", *texts, scores=[None, 1.0, 2.0]), fusion=0.5)

    assert [one.id for one in first_alone.candidates] == ["a", "c", "b"]
    assert [one.score for one in first_alone.candidates] == [1.0, 0.5, 0.0]
    assert {one.first_score for one in model_alone.candidates} == {1.0, 2.0, 3.0}
    assert partly.candidates[0] == RankedCandidate("a", 1, None, None, NO_FIRST_SCORE)
    assert partly.flags == (Flag.KEPT_ORDER,)


@pytest.mark.parametrize("text", ["no json", "[]", "{}", '{"query": "x"}', '{"query": "x", "candidates": [1]}'])
def test_a_text_that_is_not_a_query_fails_without_affecting_others(text: str) -> None:
    reranker = Reranker(HashingModel(), ByteTokenizer())

    produced = reranker.rerank([text, payload("why?", "rain")], RerankOptions(), RunContext())

    assert isinstance(produced.outcomes[0], Failed)
    assert produced.outcomes[1] == rerank(payload("why?", "rain"))[0]


# nothing to do, stop, timing ----------------------------------------------------------------------------------------


def test_the_model_is_not_called_if_there_is_nothing_to_score() -> None:
    model = HashingModel()

    assert rerank(payload("", "rain"), model=model)[0].num_computed == 0
    assert rerank(model=model) == []
    assert model.read == []


def test_a_request_to_stop_is_obeyed() -> None:
    reranker = Reranker(HashingModel(), ByteTokenizer())

    with pytest.raises(Stopped):
        reranker.rerank([payload("why?", "rain")], RerankOptions(), RunContext(should_stop=lambda: True))


def test_tokenizing_and_reading_are_timed() -> None:
    reranker = Reranker(HashingModel(), ByteTokenizer())
    options = RerankOptions(timing=Timing.STEPS)

    timings = reranker.rerank([payload("why?", "rain")], options, RunContext()).timings

    assert [(one.phase, one.tokens) for one in timings] == [("tokenize", 27), ("prefill", 27)]


def test_a_tokenizer_of_another_model_is_refused() -> None:
    with pytest.raises(ModelError, match="different models"):
        Reranker(HashingModel(vocab_size=200), ByteTokenizer())
