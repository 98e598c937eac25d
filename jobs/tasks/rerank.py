"""Reranking: the candidates of a query in a new order."""

from jobs.outcome import Flag
from jobs.spec import Task
from jobs.tasks.kind import Exported, Field, Kind, Measure, Type, Words

RERANK = Kind(
    name=Task.RERANK,
    table="rankings",
    about="The result of a query of a reranking job: its candidates in their new order.",
    words=Words("query", "rerank", "reranking", "reranked"),
    main="ranking",
    length="num_tokens",
    measures=(
        Measure("candidates", "num_candidates"),
        Measure("unscored", "num_unscored"),
        Measure("tokens", "num_tokens"),
        Measure("computed", "num_computed"),
        Measure("shared", "num_shared"),
    ),
    flags=(Flag.TRUNCATED, Flag.KEPT_ORDER),
    fields=(
        Field(name="candidates", type=Type.JSON, meaning="the candidates, best first, a JSON list", view="ranking"),
        Field(
            name="num_candidates",
            type=Type.INTEGER,
            meaning="in the list",
            unit="candidates",
            export=Exported.NEVER,
        ),
        Field(
            name="num_unscored",
            type=Type.INTEGER,
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
