"""What a task is, as data: its options, its table of results, the fields of a result, and what is shown of them.

From these declarations come the tables of results, their columns in `v_documents`, in exports and in conditions, the
types in parquet, and the sums that a job counts. Knows no SQL, no files and no pages.
"""

import dataclasses
import enum
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jobs import measures
from jobs.outcome import Flag
from jobs.tasks.option import Option


class Type(enum.StrEnum):
    """The type of a value."""

    TEXT = "text"
    JSON = "JSON"  # stored as text
    INTEGER = "integer"
    FLOAT = "float"


_in_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode  # json.dumps makes one at every call


class NotFinite(ValueError):
    """A number of a result is NaN or infinite."""


def as_json(value: Any) -> str:
    """The value as JSON text. Raises NotFinite for a NaN or an infinity in it."""
    try:
        return _in_json(value)
    except ValueError:
        raise NotFinite from None


class Exported(enum.StrEnum):
    """Whether exports have a field beside the result itself."""

    AS_RESULT = "as the result"  # or as a part of it
    ALWAYS = "always"  # in every record, under its own name
    WHERE_ASKED = "where asked"  # in the records of a job whose options ask for it
    WITH_LOG_PROB = "log_prob"  # where `--with` asks for that
    WITH_TOKENS = "tokens"  # likewise
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A value of a result: a column of the task's table."""

    name: str
    type: Type
    meaning: str
    value: Callable[[Any], Any] | None = None  # computes it from an outcome; None: the outcome's attribute of this name
    unit: str | None = None  # of a number
    is_nullable: bool = False
    default: str | None = None  # what older results, stored before the field existed, have
    counter: str | None = None  # the counter of a job that sums this field over its results
    export: Exported = Exported.AS_RESULT
    asked_by: str = ""  # WHERE_ASKED: the option of the job, which is true or above 1
    export_name: str = ""  # its name in exports; empty: its name in `v_documents`
    view: str = ""  # its name in `v_documents`; empty: `name`
    view_meaning: str = ""  # its meaning in `v_documents`; empty: `meaning`
    is_viewed: bool = True  # whether `v_documents` has it
    is_condition: bool = True  # whether `--where` takes it
    of: str = ""  # the results that have it, if not all of the task's do
    of_via: bool = False  # whether it describes the text between two models
    # A word for each value; not empty: the results of a job are counted by this field.
    words: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def view_name(self) -> str:
        return self.view or self.name

    @property
    def exported_name(self) -> str:
        return self.export_name or self.view_name

    def is_asked_for(self, options: Mapping[str, Any]) -> bool:
        """Whether a job with these options has it. `options`: as in the job's row."""
        value = options.get(self.asked_by) or 0
        return value is True or bool(value > 1)


def token_count(name: str, meaning: str, **how: Any) -> Field:
    """A number of tokens, which `--with tokens` exports."""
    return Field(name=name, type=Type.INTEGER, meaning=meaning, unit="tokens", export=Exported.WITH_TOKENS, **how)


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A number that follows from the sums of a result: exp(total / count), or its bits per byte."""

    name: str
    meaning: str
    unit: str
    total: str  # the field of the sum, in nats
    count: str  # the field that it is divided by
    in_bits: bool = False

    def of(self, result: Mapping[str, Any]) -> float | None:
        """Its value for a result; None for a count of 0."""
        compute = measures.bits_per_byte if self.in_bits else measures.perplexity
        return compute(result[self.total], result[self.count])


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean per token by which results are sorted: its exponential is a perplexity."""

    total: str  # the field of a sum of log-probabilities, in nats
    count: str  # the field of the number of their tokens
    of: str  # the text whose tokens these are
    is_cost: bool = False  # `total` sums -log p, not log p

    def perplexity_of(self, result: Mapping[str, Any]) -> float | None:
        """The perplexity of a result; None if its log-probability is unknown or it has no token."""
        total, count = result[self.total], result[self.count]
        return None if total is None else measures.perplexity(total if self.is_cost else -total, count)


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of a result, or a word, as the page of a document shows it."""

    label: str
    value: str | Mean | Derived  # a field, or a perplexity
    unit: str = ""
    where: str = ""  # a field; the measure is shown if it is neither null nor 0
    in_percent: bool = False
    column: str = ""  # its heading in the list of documents; empty: not in the list

    @property
    def key(self) -> str:
        """The key of the measure in JSON."""
        return self.value if isinstance(self.value, str) else self.label.replace(" ", "_")

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of a result from which the measure is computed."""
        own = (self.value,) if isinstance(self.value, str) else (self.value.total, self.value.count)
        return (*own, self.where) if self.where else own

    def of(self, result: Mapping[str, Any]) -> Any:
        """Its value for a result."""
        if isinstance(self.value, Mean):
            return self.value.perplexity_of(result)
        if isinstance(self.value, Derived):
            return self.value.of(result)
        return 100 * result[self.value] if self.in_percent else result[self.value]

    def is_shown(self, result: Mapping[str, Any]) -> bool:
        return not self.where or result[self.where] not in (None, 0)


class Compared(enum.StrEnum):
    """How the results of two jobs are compared."""

    TEXTS = "texts"  # by the words that differ
    SCORES = "scores"  # by the mean per token, or per byte
    RANKINGS = "rankings"  # by the ranks of their candidates


@dataclass(frozen=True, slots=True)
class Words:
    """The words for a task: what a document is called, and what is done to it."""

    document: str
    do: str
    doing: str
    done: str
    source: str = ""  # the heading of a document's text; empty: `Text`
    result: str = ""  # the heading of its result in a list


class PayloadKind(enum.StrEnum):
    """The form of a document's payload."""

    TEXT = "text"
    PAIRS = "pairs"  # a source and a target
    CANDIDATES = "candidates"  # a query with candidates
    MESSAGES = "messages"  # of a chat; a text is one of the user


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A task: what it is called, what it reads, what its results are, and how they are shown."""

    name: str
    options_type: type[Any] | None = None  # the frozen value of its options; None: no model does it
    options: tuple[Option, ...] = ()  # fields of `options_type` and options for reading a corpus, as help orders them
    models: tuple[str, ...] = ()  # the kinds of models that do it (`worker.models.model_kind`)
    default_model: str = ""  # the bundled model that is used if none is named
    payload: PayloadKind = PayloadKind.TEXT
    payload_where: tuple[tuple[str, ...], PayloadKind] | None = None  # (options, payload if one of them is true)
    in_windows: bool = False  # whether a text of any length is read, in windows
    too_long: str = "cut to fit"  # what becomes of other sequences that are longer than the model's positions
    has_large_shards: bool = False  # whether a document may be large, or slow
    difference: str = ""  # how far the answers of two providers are apart, as a number
    table: str  # of its results
    about: str  # what a row of that table is
    words: Words
    # The tokens of a job, {read} and {made}: in a line, and behind the number of those by which its speed is measured.
    token_words: tuple[str, str] = ("", "")
    made_words: tuple[str, str] | None = None  # the same for a job that has read no token
    main: str  # the result's name in an export
    # In a table a ranking takes a row for each candidate: its columns, and the key of each in the JSON of a candidate.
    candidate_columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    formats: tuple[str, ...] = ("txt",)  # of `jobs.export`, besides those that every task has
    outcome: type | None = None  # of `jobs.outcome`: what an engine returns; None: it has no engine
    fields: tuple[Field, ...]  # in the order of the table
    derived: tuple[Derived, ...] = ()
    mean: Mean | None = None  # None: its results have no perplexity
    length: str | None = None  # the field by which a document is long or short, in tokens
    text: str | None = None  # the field with the text that it makes
    is_between_languages: bool = False  # it makes a text of one language from one of another: routes lead there
    compared: tuple[str, ...] = ()  # the fields by which two jobs are compared
    compared_as: Compared | None = None  # None: two jobs of it are not compared
    measures: tuple[Measure, ...] = ()  # of a result, in the order of its page
    tokens: str = "target_tokens"  # the counter of a job by which its speed is measured
    flags: tuple[Flag, ...] = ()  # the flags that its results may have, the most telling first

    @property
    def offered(self) -> Mapping[str, Option]:
        """The options that may be given, by name."""
        return {option.name: option for option in self.options if option.help}

    @property
    def has_model(self) -> bool:
        """Whether a model does it, on a worker; a filter is evaluated by the database."""
        return self.outcome is not None

    @property
    def is_scored(self) -> bool:
        """Whether its results are sums, so that the measures of a job follow from them."""
        return bool(self.derived)

    @property
    def has_totals(self) -> bool:
        """Whether its results are summed up: scores, and texts with their tokens."""
        return self.mean is not None

    @property
    def columns(self) -> tuple[Measure, ...]:
        """What the list of documents shows of a result besides its text, its perplexity and its length."""
        return tuple(measure for measure in self.measures if measure.column)

    @property
    def counted_by(self) -> Field | None:
        """The field by whose values the results of a job are counted."""
        return next((field for field in self.fields if field.words), None)

    @property
    def has_candidates(self) -> bool:
        """Whether its documents are queries with candidates."""
        return self.payload is PayloadKind.CANDIDATES

    @property
    def can_follow(self) -> bool:
        """Whether it can be a stage behind another one, whose documents are texts."""
        return self.has_model and self.payload is PayloadKind.TEXT

    def payload_kind(self, options: Mapping[str, Any]) -> PayloadKind:
        """The payload of a job with these options."""
        names, payload = self.payload_where or ((), self.payload)
        return payload if any(map(options.get, names)) else self.payload

    def field(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)

    def exported(self, how: Exported, *, of_via: bool = False) -> tuple[Field, ...]:
        """The fields that exports have in this way; with `of_via` those of the text between two models, else the
        others."""
        return tuple(field for field in self.fields if field.export is how and field.of_via is of_via)

    def row_of(self, result: Any) -> dict[str, Any]:
        """What is stored of an outcome, by the name of the column; JSON as text. Raises NotFinite for NaN and infinity,
        in JSON too."""
        row = {
            field.name: getattr(result, field.name) if field.value is None else field.value(result)
            for field in self.fields
        }
        if not all(map(math.isfinite, [value for value in row.values() if isinstance(value, float)])):
            raise NotFinite
        row["flags"] = " ".join(result.flags)
        return row

    @property
    def conditions(self) -> frozenset[str]:
        """The columns of `v_documents` that come from its results and that `--where` takes."""
        own = (field.view_name for field in self.fields if field.is_viewed and field.is_condition)
        return frozenset({"flags", *own, *(derived.name for derived in self.derived)})


# The columns of `v_documents` in the order in which they were added, which stays; new ones follow.
VIEW_ORDER = (
    *("job_id", "position", "id", "line", "status", "text", "translation", "log_prob", "num_segments", "num_reused"),
    *("num_source_tokens", "num_target_tokens", "flags", "fields", "error_code", "error"),
    *("shard_id", "epoch", "worker_id", "finished_at", "nll_sum", "num_tokens", "num_words", "num_bytes"),
    *("perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "token_scores"),
    *("ranking", "num_candidates", "num_unscored", "num_computed", "num_shared", "segments", "provider"),
    *("generation", "finish", "num_prompt_tokens", "num_new_tokens"),
    *("via", "via_log_prob", "via_source_tokens", "via_target_tokens", "via_segments", "route", "unknown_share"),
)
