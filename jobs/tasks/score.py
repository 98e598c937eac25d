"""Scoring: the log-probability of a text, or of a target given its source."""

import enum
from dataclasses import dataclass

from jobs.errors import SpecError
from jobs.number_ranges import Whole
from jobs.outcome import Flag, Score
from jobs.tasks import shared_options as shared
from jobs.tasks.kind import (
    Compared,
    Derived,
    Exported,
    Field,
    Kind,
    Mean,
    Measure,
    PayloadKind,
    Type,
    Words,
    as_json,
    token_count,
)
from jobs.tasks.option import Option, check_numbers, option, options_of
from jobs.tasks.task import Task


class Window(enum.StrEnum):
    """How a document longer than the model's context is scored."""

    STRIDE = "stride"  # overlapping windows: each token is scored once, after at least max_length - stride others
    DISJOINT = "disjoint"  # adjacent windows, each with one token of context (lm-evaluation-harness, rolling)
    TRUNCATE = "truncate"  # the first window only


class Bos(enum.StrEnum):
    """The token before the first token of a document, so that this one can be scored."""

    AUTO = "auto"  # the tokenizer's BOS if it has one, else nothing
    BOS = "bos"
    EOS = "eos"
    NONE = "none"  # nothing: the first token is not scored


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """Options of scoring. With `pairs`, a document is a source and a target, and log p(target | source) is computed."""

    pairs: bool = False
    window: Window = option(
        Window.STRIDE,
        "How to read a document longer than the model's context: in overlapping windows, in windows side by side, or "
        "only its beginning.",
    )
    max_length: int | None = option(None, shared.MAX_LENGTH)  # of a window, BOS included; None: the model's maximum
    stride: int | None = option(  # None: half of max_length
        None,
        "The distance from one window to the next.  [default: half of --max-length]",
        Whole(1),
        metavar="TOKENS",
    )
    bos: Bos = option(
        Bos.AUTO,
        "The token to put before the first one, so that this can be scored; auto: the tokenizer's BOS, if it has one.",
    )
    token_scores: bool = option(False, "Store the log-probability of every token.")
    source_language: str = option("en", shared.SOURCE_LANGUAGE, is_later=True)  # pairs: of a multilingual model
    target_language: str | None = option(None, shared.TARGET_LANGUAGE)  # pairs: a label without >> and <<
    packing: bool = option(True, "Put several documents into one row of a model call, instead of padding.")
    # Take the score of a document that was scored before from the score memory.
    reuse: bool = option(True, shared.REUSE, is_later=True)
    timing: shared.Timing = option(shared.Timing.STEPS, shared.TIMING)

    def __post_init__(self) -> None:
        check_numbers(self)
        if self.max_length is not None and self.stride is not None and self.stride >= self.max_length:
            raise SpecError(
                f"stride is {self.stride} and max_length {self.max_length}; a window keeps at least one token of "
                "context: lower --stride or raise --max-length"
            )


# Of a translation model, which scores pairs.
SOURCE_FIELD = Option(
    "With a translation model: the field of the source.", name="source_field", default="source", of_corpus=True
)
TARGET_FIELD = Option(
    "With a translation model: the field of the target, which is scored.",
    name="target_field",
    default="target",
    of_corpus=True,
)

_PERPLEXITY = Derived(
    name="perplexity",
    meaning="exp(nll_sum / num_tokens), also infinite; null without a token",
    unit="per token",
    total="nll_sum",
    count="num_tokens",
)
_WORD_PERPLEXITY = Derived(
    name="word_perplexity", meaning="exp(nll_sum / num_words)", unit="per word", total="nll_sum", count="num_words"
)
_BYTE_PERPLEXITY = Derived(
    name="byte_perplexity", meaning="exp(nll_sum / num_bytes)", unit="per byte", total="nll_sum", count="num_bytes"
)
_BITS_PER_BYTE = Derived(
    name="bits_per_byte",
    meaning="nll_sum / (num_bytes ln 2)",
    unit="bits per byte",
    total="nll_sum",
    count="num_bytes",
    in_bits=True,
)


def _token_scores(result: Score) -> str | None:
    keys = ("text", "start", "stop", "log_prob")
    return as_json([{key: getattr(token, key) for key in keys} for token in result.tokens]) if result.tokens else None


SCORE = Kind(
    name=Task.SCORE,
    options_type=ScoreOptions,
    options=(*options_of(ScoreOptions), SOURCE_FIELD, TARGET_FIELD, shared.TEXT_FIELD),
    models=("causal", "translation"),
    default_model="demo-lm",
    payload_where=(("pairs",), PayloadKind.PAIRS),
    in_windows=True,
    table="scores",
    about="The result of a document of a scoring job: sums, from which the views derive perplexities.",
    words=Words("document", "score", "scoring", "scored"),
    token_words=("{made} scored, after sources of {read}", "scored, after {read} of sources"),
    made_words=("{made} scored", "scored"),
    difference="nats per token, largest",
    main="score",
    outcome=Score,
    mean=Mean("nll_sum", "num_tokens", of="text", is_cost=True),
    length="num_tokens",
    compared=("nll_sum", "num_tokens", "num_bytes"),
    compared_as=Compared.SCORES,
    measures=(
        Measure("perplexity", _PERPLEXITY),
        Measure("word perplexity", _WORD_PERPLEXITY),
        Measure("bits per byte", _BITS_PER_BYTE),
        Measure("summed cost", "nll_sum", "nats"),
        Measure("tokens", "num_tokens"),
        Measure("words", "num_words"),
        Measure("bytes", "num_bytes"),
    ),
    flags=(Flag.TRUNCATED, Flag.UNSCORED_FIRST, Flag.UNSCORED),
    fields=(
        Field(
            name="nll_sum",
            type=Type.FLOAT,
            meaning="negative log-probability, summed over the scored tokens; finite",
            unit="nats",
        ),
        Field(name="num_tokens", type=Type.INTEGER, meaning="scored", unit="tokens", counter="target_tokens"),
        Field(
            name="num_words",
            type=Type.INTEGER,
            meaning="of the text that the scored tokens cover, separated by white space",
            unit="words",
        ),
        Field(
            name="num_bytes", type=Type.INTEGER, meaning="of the text that the scored tokens cover, UTF-8", unit="bytes"
        ),
        token_count("num_source_tokens", "of a pair: of its source; else 0", counter="source_tokens", of="of pairs"),
        Field(
            name="token_scores",
            type=Type.JSON,
            value=_token_scores,
            meaning="each token with its log-probability, JSON; null unless asked for",
            is_nullable=True,
            export=Exported.WHERE_ASKED,
            asked_by="token_scores",
            export_name="tokens",
        ),
        Field(
            name="num_reused",
            type=Type.INTEGER,
            value=lambda result: int(result.reused),
            meaning="1 if the score came from the memory of scores",
            unit="documents",
            default="0",
            counter="documents_reused",
            export=Exported.NEVER,
            view_meaning="1 if the score came from the memory of scores",
        ),
    ),
    derived=(_PERPLEXITY, _WORD_PERPLEXITY, _BYTE_PERPLEXITY, _BITS_PER_BYTE),
)
