"""Reranking: the candidates of a query in a new order."""

import enum
from dataclasses import dataclass
from typing import Any

from jobs.errors import SpecError
from jobs.number_ranges import Real
from jobs.outcome import Flag, Ranking
from jobs.tasks import shared_options as shared
from jobs.tasks.kind import Compared, Exported, Field, Kind, Measure, PayloadKind, Type, Words, as_json, token_count
from jobs.tasks.option import Option, check_numbers, option, options_of
from jobs.tasks.task import Task


class Method(enum.StrEnum):
    """How a candidate is scored."""

    QUERY_LIKELIHOOD = "query-likelihood"  # mean log p(query | document)
    PERPLEXITY = "perplexity"  # mean log p(document | query)
    YES_NO = "yes-no"  # p(yes) of a causal model that is asked whether the document answers the query
    CROSS_ENCODER = "cross-encoder"  # what a cross-encoder gives for query and document together


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankOptions:
    """Options of reranking. A candidate's final score is (1 - fusion) x model + fusion x first stage, each scaled to
    0 .. 1 among the candidates of the query; with fusion = 0 it is the model's score, unscaled."""

    method: Method | None = option(  # None: the default for the kind of the model
        None,
        "The score of a candidate: the mean log-probability of the query given the document, or of the document given "
        "the query; how likely a causal model answers yes, as Qwen3-Reranker is asked; or what a cross-encoder gives "
        "for both.  [default: query-likelihood; of a cross-encoder: cross-encoder]",
    )
    template: str | None = option(
        None,
        "The prompt: contains {query} and {document}, and ends with the one that is scored; yes-no: the user's "
        "message.  [default: the method's]",
        metavar="TEXT",
    )
    fusion: float = option(
        0.0,
        "The weight of the first stage's score, from 0 (only the model) to 1 (only the first stage).",
        Real(0, 1, "0 is the model alone, 1 the first stage"),
        metavar="WEIGHT",
    )
    max_length: int | None = option(None, shared.MAX_LENGTH)  # tokens of a sequence. Longer documents are cut
    prefix_cache: bool = option(True, shared.PREFIX_CACHE)
    timing: shared.Timing = option(shared.Timing.STEPS, shared.TIMING)

    def __post_init__(self) -> None:
        check_numbers(self)
        if self.template is not None and self.method is Method.CROSS_ENCODER:
            raise SpecError(
                f"the method {self.method} has no template, its model reads the two texts: leave --template out"
            )
        if self.template is not None:
            self._check_template(self.template)

    def _check_template(self, template: str) -> None:
        last = _SCORED.get(self.method or Method.QUERY_LIKELIHOOD)
        is_complete = template.count("{query}") == 1 and template.count("{document}") == 1
        if not is_complete or (last and not template.rstrip().endswith(last)):
            raise SpecError(
                f"the template {template!r} must contain {{query}} and {{document}} once each"
                + (
                    f" and, for the method {self.method or Method.QUERY_LIKELIHOOD}, end with {last}, which is scored"
                    if last
                    else ""
                )
            )


_SCORED = {Method.QUERY_LIKELIHOOD: "{query}", Method.PERPLEXITY: "{document}"}  # the end of a template


RUN = Option(
    "A TREC run with the candidates of each query; CORPUS is then a folder in BEIR's layout.",
    name="run",
    metavar="FILE",
    is_file=True,
    of_corpus=True,
)


def _candidates(result: Ranking) -> str:
    """The candidates as JSON, as exports have them: keys without a value are left out, except the score."""
    found: list[dict[str, Any]] = []
    for candidate in result.candidates:
        found.append({"id": candidate.id, "rank": candidate.rank, "score": candidate.score})
        found[-1] |= {} if candidate.first_score is None else {"first_score": candidate.first_score}
        found[-1] |= {} if candidate.error is None else {"error": candidate.error}
    return as_json(found)


RERANK = Kind(
    name=Task.RERANK,
    options_type=RerankOptions,
    options=(RUN, *options_of(RerankOptions)),
    models=("causal", "cross-encoder"),
    default_model="demo-lm",
    payload=PayloadKind.CANDIDATES,
    has_large_shards=True,
    table="rankings",
    about="The result of a query of a reranking job: its candidates in their new order.",
    words=Words("query", "rerank", "reranking", "reranked", "Query", "New order"),
    token_words=("{read} through the model, {made} scored", "through the model, {made} scored"),
    difference="1 - rank-biased overlap, mean",
    main="ranking",
    candidate_columns={
        "candidate": "id",
        "rank": "rank",
        "score": "score",
        "first_score": "first_score",
        "candidate_error": "error",
    },
    formats=("trec", "cohere"),
    outcome=Ranking,
    length="num_tokens",
    compared=("candidates",),
    compared_as=Compared.RANKINGS,
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
            value=lambda result: sum(candidate.score is None for candidate in result.candidates),
            meaning="could not be scored and kept their place",
            unit="candidates",
            export=Exported.NEVER,
        ),
        token_count("num_tokens", "scored", counter="target_tokens"),
        token_count("num_computed", "that went through the model", counter="source_tokens"),
        token_count("num_shared", "that did not, because their prefix was already computed"),
    ),
)
