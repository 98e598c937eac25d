"""The tables of results, one for each task."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.orm import Mapped

from jobs.store.schema.column import column
from jobs.store.schema.declarative import Base

# The mean per token, by which results are sorted: its exponential is the perplexity.
MEAN_NLL, HAS_TOKENS = text("(nll_sum / num_tokens)"), text("num_tokens > 0")  # of a score
MEAN_LOG_PROB, HAS_TARGET_TOKENS = text("(log_prob / num_target_tokens)"), text("num_target_tokens > 0")
MEAN_OF_NEW, HAS_NEW_TOKENS = text("(log_prob / num_new_tokens)"), text("num_new_tokens > 0")  # of a generation


class ResultRow(Base):
    """The columns that the results of all tasks share. The first result of a document is kept, never overwritten."""

    __abstract__ = True

    job_id: Mapped[int] = column("its job", ForeignKey("jobs.id", ondelete="CASCADE"), unit="id", primary_key=True)
    position: Mapped[int] = column("place of the document in the corpus, from 0", unit="position", primary_key=True)
    flags: Mapped[str] = column("remarks on the result (`jobs.outcome.Flag`), sorted, separated by a space")
    shard_id: Mapped[int] = column("shard that it was computed in", unit="id")
    epoch: Mapped[int] = column("lease epoch under which it was recorded", unit="epoch")
    worker_id: Mapped[int] = column("worker that computed it", unit="id")
    finished_at: Mapped[datetime] = column("when it was recorded")
    provider: Mapped[str] = column(
        "who answered, as in `job_providers`; `none`: a ranking that no provider could make, which has the first "
        "order, or a document that a filter keeps",
        server_default="onnx",
    )


class Translation(ResultRow):
    """The result of a document of a translating job."""

    __tablename__ = "translations"

    text: Mapped[str] = column("the translation")
    log_prob: Mapped[float | None] = column(
        "log-probability, summed over the generated tokens; null where the provider returns none", unit="nats"
    )
    num_segments: Mapped[int] = column("sentences, those passed through included", unit="segments")
    num_reused: Mapped[int] = column("segments taken from the translation memory", unit="segments")
    num_source_tokens: Mapped[int] = column("of the source", unit="tokens")
    num_target_tokens: Mapped[int] = column("generated, ends of sentences included", unit="tokens")
    alternatives: Mapped[str | None] = column("the n best translations, JSON; null unless `--n-best` asks for them")
    segments: Mapped[str | None] = column(
        "where each translated sentence is: a JSON list of [start, stop in the source, start, stop in the "
        "translation], in characters (Unicode code points) from 0, in their order; null for a result of an older "
        "version and where there is no sentence"
    )
    via: Mapped[str | None] = column(
        "the text in the middle, where two models translated (`--via`): the first made it, the second read it; the "
        "columns above without `via` are of the source and of the second model's translation"
    )
    via_log_prob: Mapped[float | None] = column(
        "log-probability of `via`, summed over the tokens that the first model generated", unit="nats"
    )
    via_target_tokens: Mapped[int | None] = column("that the first model generated for `via`", unit="tokens")
    via_source_tokens: Mapped[int | None] = column("of `via`, as the second model reads it", unit="tokens")
    via_segments: Mapped[str | None] = column(
        "where each sentence of `segments` is in `via`: a JSON list of [start, stop], in characters, in their order"
    )
    unknown_share: Mapped[float | None] = column(
        "of the characters of the source's sentences, white space aside, those that the model's vocabulary lacks (its "
        "unknown tokens), from 0 to 1; null where there is no sentence, for a server's answer and for a result of an "
        "older version",
        unit="of 1",
    )

    __table_args__ = (
        Index(
            "ix_translations_job_id_mean",
            "job_id",
            MEAN_LOG_PROB,
            "position",
            sqlite_where=HAS_TARGET_TOKENS,
            postgresql_where=HAS_TARGET_TOKENS,
        ),
        {"sqlite_with_rowid": False},
    )


class Score(ResultRow):
    """The result of a document of a scoring job: sums, from which the views derive perplexities."""

    __tablename__ = "scores"

    nll_sum: Mapped[float] = column("negative log-probability, summed over the scored tokens; finite", unit="nats")
    num_tokens: Mapped[int] = column("scored", unit="tokens")
    num_words: Mapped[int] = column("of the text that the scored tokens cover, separated by white space", unit="words")
    num_bytes: Mapped[int] = column("of the text that the scored tokens cover, UTF-8", unit="bytes")
    num_source_tokens: Mapped[int] = column("of a pair: of its source; else 0", unit="tokens")
    token_scores: Mapped[str | None] = column("each token with its log-probability, JSON; null unless asked for")
    num_reused: Mapped[int] = column(
        "1 if the score came from the memory of scores", unit="documents", server_default="0"
    )

    __table_args__ = (
        Index(
            "ix_scores_job_id_mean",
            "job_id",
            MEAN_NLL,
            "position",
            sqlite_where=HAS_TOKENS,
            postgresql_where=HAS_TOKENS,
        ),
        {"sqlite_with_rowid": False},
    )


class Ranking(ResultRow):
    """The result of a query of a reranking job: its candidates in their new order."""

    __tablename__ = "rankings"

    candidates: Mapped[str] = column("the candidates, best first, a JSON list")
    num_candidates: Mapped[int] = column("in the list", unit="candidates")
    num_unscored: Mapped[int] = column("could not be scored and kept their place", unit="candidates")
    num_tokens: Mapped[int] = column("scored", unit="tokens")
    num_computed: Mapped[int] = column("that went through the model", unit="tokens")
    num_shared: Mapped[int] = column("that did not, because their prefix was already computed", unit="tokens")

    __table_args__ = ({"sqlite_with_rowid": False},)


class Generation(ResultRow):
    """The result of a document of a generating job: what its prompt was continued with."""

    __tablename__ = "generations"

    text: Mapped[str] = column("the continuation, without the prompt and without the stop text")
    log_prob: Mapped[float | None] = column(
        "log-probability under the model itself, summed over the new tokens; null where the provider returns none",
        unit="nats",
    )
    finish: Mapped[str] = column(
        "why it ended: `eos` (the model ended it), `stop` (a stop text appeared) or `length` (`--max-new-tokens`, or "
        "the model's positions)"
    )
    num_prompt_tokens: Mapped[int] = column("of the prompt", unit="tokens")
    num_shared: Mapped[int] = column("of the prompt that were read for another document", unit="tokens")
    num_new_tokens: Mapped[int] = column("generated, the one that ended it included", unit="tokens")

    __table_args__ = (
        Index(
            "ix_generations_job_id_mean",
            "job_id",
            MEAN_OF_NEW,
            "position",
            sqlite_where=HAS_NEW_TOKENS,
            postgresql_where=HAS_NEW_TOKENS,
        ),
        {"sqlite_with_rowid": False},
    )


class Pass(ResultRow):
    """The result of a document of a filtering job: the filter keeps it. (The others have the status `skipped`.)"""

    __tablename__ = "passes"
    __table_args__ = ({"sqlite_with_rowid": False},)
