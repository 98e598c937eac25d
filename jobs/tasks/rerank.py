"""Reranking: the candidates of a query in a new order."""

from typing import Any

from jobs.outcome import Flag, Ranking
from jobs.spec import Task
from jobs.tasks.kind import Exported, Field, Kind, Measure, Type, Words, as_json


def _candidates(result: Ranking) -> str:
    """In the form of the export: keys without a value are left out, except the score."""
    found: list[dict[str, Any]] = []
    for one in result.candidates:
        found.append({"id": one.id, "rank": one.rank, "score": one.score})
        found[-1] |= {} if one.first_score is None else {"first_score": one.first_score}
        found[-1] |= {} if one.error is None else {"error": one.error}
    return as_json(found)


RERANK = Kind(
    name=Task.RERANK,
    table="rankings",
    about="The result of a query of a reranking job: its candidates in their new order.",
    words=Words("query", "rerank", "reranking", "reranked", "Query", "New order"),
    token_words=("{read} through the model, {made} scored", "through the model, {made} scored"),
    main="ranking",
    outcome=Ranking,
    length="num_tokens",
    compared=("candidates",),
    tokens="source_tokens",  # what is scored of each candidate is short
    measures=(
        Measure("candidates", "num_candidates"),
        Measure("unscored", "num_unscored"),
        Measure("tokens", "num_tokens"),
        Measure("computed", "num_computed"),
        Measure("shared", "num_shared"),
    ),
    flags=(Flag.TRUNCATED, Flag.KEPT_ORDER),
    fields=(
        Field(
            name="candidates",
            type=Type.JSON,
            value=_candidates,
            meaning="the candidates, best first, a JSON list",
            view="ranking",
        ),
        Field(
            name="num_candidates",
            type=Type.INTEGER,
            value=lambda result: len(result.candidates),
            meaning="in the list",
            unit="candidates",
            export=Exported.NEVER,
        ),
        Field(
            name="num_unscored",
            type=Type.INTEGER,
            value=lambda result: sum(one.score is None for one in result.candidates),
            meaning="could not be scored and kept their place",
            unit="candidates",
            export=Exported.NEVER,
        ),
        Field(
            name="num_tokens",
            type=Type.INTEGER,
            meaning="scored",
            unit="tokens",
            counter="target_tokens",
            export=Exported.WITH_TOKENS,
        ),
        Field(
            name="num_computed",
            type=Type.INTEGER,
            meaning="that went through the model",
            unit="tokens",
            counter="source_tokens",
            export=Exported.WITH_TOKENS,
        ),
        Field(
            name="num_shared",
            type=Type.INTEGER,
            meaning="that did not, because their prefix was already computed",
            unit="tokens",
            export=Exported.WITH_TOKENS,
        ),
    ),
)
