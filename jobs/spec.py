"""The specification of a job: task, model, options; frozen values that are checked when they are made. Needs only
the standard library."""

import dataclasses
import enum
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jobs.errors import SpecError
from jobs.near_names import meant
from jobs.option_numbers import COLDEST, check_numbers
from jobs.providers import ONNX_ALONE, ProviderOrder
from jobs.routing.routes import Leg, Route, read_routes, revision_of


class Task(enum.StrEnum):
    """What a job does with each document."""

    TRANSLATE = "translate"
    SCORE = "score"  # log-probability under a model: perplexity
    RERANK = "rerank"  # reorder the candidates of a query
    GENERATE = "generate"  # continue a prompt


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


class Method(enum.StrEnum):
    """How a candidate is scored."""

    QUERY_LIKELIHOOD = "query-likelihood"  # mean log p(query | document)
    PERPLEXITY = "perplexity"  # mean log p(document | query)
    YES_NO = "yes-no"  # p(yes) of a causal model that is asked whether the document answers the query
    CROSS_ENCODER = "cross-encoder"  # what a cross-encoder gives for query and document together


class Timing(enum.StrEnum):
    """How detailed the stored timings are."""

    STEPS = "steps"  # one row per model call
    BATCHES = "batches"  # one row per phase and batch
    OFF = "off"


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """When a decoder reuses the keys and values of earlier steps.

    `auto` and `on` differ only for a graph without a cache: `on` refuses it. `hybrid:N` runs the whole prefix for the
    first N tokens and uses the cache from then on.
    """

    mode: str = "auto"  # auto | on | off | hybrid
    uncached_steps: int = 0  # N of hybrid:N

    @classmethod
    def parse(cls, text: str) -> "CachePolicy":
        """Parse `auto`, `on`, `off` or `hybrid:N`. Raises SpecError for anything else."""
        if text in ("auto", "on", "off"):
            return cls(text)
        if match := re.fullmatch(r"hybrid:([0-9]{1,4})", text):
            return cls("hybrid", int(match[1]))
        raise SpecError(
            f"cache is {text!r}{meant(text, ('auto', 'on', 'off'))}; it can be auto, on, off or hybrid:N (N uncached "
            "steps first)"
        )

    def __str__(self) -> str:
        return f"hybrid:{self.uncached_steps}" if self.mode == "hybrid" else self.mode


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslateOptions:
    """Options of translating. None: the value in the model's generation_config.json."""

    beam_size: int | None = None  # 1 is greedy search
    n_best: int = 1  # hypotheses kept per segment, at most beam_size
    length_penalty: float | None = None  # exponent on length when ranking finished beams (Wu et al. 2016)
    early_stopping: bool | None = None  # stop a beam search as soon as beam_size hypotheses have ended
    max_new_tokens: int | None = None  # per segment, end-of-sentence included
    allow_pad: bool = False  # allow padding as output unless the model's own settings forbid it, as transformers does
    source_language: str = "en"  # for the sentence splitter, and multilingual models
    target_language: str | None = None  # of a multilingual model; a label without >> and <<
    cache: CachePolicy = CachePolicy()
    batch_size: int | None = None  # segments that one model call processes together; None: the engine chooses
    reuse: bool = True  # take a segment that was translated before from the translation memory
    timing: Timing = Timing.STEPS
    routes: tuple[Route, ...] = ()  # the models of each language, or of all documents; empty: the job's model alone

    def __post_init__(self) -> None:
        check_numbers(self)
        if self.beam_size is not None and self.n_best > self.beam_size:
            raise SpecError(
                f"n_best is {self.n_best} and beam_size {self.beam_size}; a beam search keeps at most beam_size "
                "hypotheses: raise --beam-size or lower --n-best"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """Options of scoring. With `pairs`, a document is a source and a target, and log p(target | source) is computed."""

    pairs: bool = False
    window: Window = Window.STRIDE
    max_length: int | None = None  # tokens of a window, BOS included; None: the model's maximum
    stride: int | None = None  # tokens from the start of one window to the next; None: half of max_length
    bos: Bos = Bos.AUTO
    token_scores: bool = False  # keep the log-probability of every token
    source_language: str = "en"  # pairs: of a multilingual model
    target_language: str | None = None  # pairs: of a multilingual model; a label without >> and <<
    packing: bool = True  # several documents in one row of a model call, without padding
    reuse: bool = True  # take the score of a document that was scored before from the score memory
    timing: Timing = Timing.STEPS

    def __post_init__(self) -> None:
        check_numbers(self)
        if self.max_length is not None and self.stride is not None and self.stride >= self.max_length:
            raise SpecError(
                f"stride is {self.stride} and max_length {self.max_length}; a window keeps at least one token of "
                "context: lower --stride or raise --max-length"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankOptions:
    """Options of reranking. A candidate's final score is (1 - fusion) x model + fusion x first stage, each scaled to
    0 .. 1 among the candidates of the query; with fusion = 0 it is the model's score, unscaled."""

    method: Method | None = None  # None: that of the model's kind
    template: str | None = None  # with {query} and {document}, the scored one last; None: the method's own
    fusion: float = 0.0  # weight of the first stage's score, 0 .. 1
    max_length: int | None = None  # tokens of a sequence; None: the model's maximum. Longer documents are cut
    prefix_cache: bool = True  # compute a prefix that sequences share once
    timing: Timing = Timing.STEPS

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


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """Options of continuing prompts. Of the model's own settings, those of length and sampling do not count."""

    max_new_tokens: int = 256  # the one that ends the continuation included
    temperature: float = 0.0  # logits are divided by it before a token is drawn; 0 is greedy search
    top_p: float = 1.0  # draw from the most likely tokens that together have this probability (Holtzman et al. 2020)
    top_k: int = 0  # draw from so many of the most likely tokens; 0: from all
    seed: int = 0  # with the same one, a document gets the same text again
    stop: tuple[str, ...] = ()  # texts that end a continuation, and do not belong to it
    chat: bool = False  # documents are messages, which the model's chat template turns into a prompt
    system: str | None = None  # chat: the system message of every document
    prefix_cache: bool = True  # read a beginning that prompts share once
    cache: CachePolicy = CachePolicy()
    batch_size: int | None = None  # prompts that run at a time; None: the engine chooses
    timing: Timing = Timing.STEPS

    def __post_init__(self) -> None:
        check_numbers(self)
        if 0 < self.temperature < COLDEST:
            raise SpecError(f"temperature is {self.temperature}; it is 0 (greedy search), or {COLDEST} and more")
        if not self.temperature and (self.top_p < 1 or self.top_k):
            raise SpecError(
                "top_p and top_k choose among the tokens that are drawn, and greedy search draws none: give "
                "--temperature 1 as well"
            )
        if "" in self.stop or len(self.stop) > _MAX_STOPS:
            raise SpecError(f"a stop text is not empty, and there are at most {_MAX_STOPS}")
        if self.system is not None and not self.chat:
            raise SpecError("a system message is part of a chat template: give --chat as well")
        if self.cache.mode == "hybrid":
            raise SpecError(f"cache is {self.cache}; to generate, it can be auto, on or off")


Options = TranslateOptions | ScoreOptions | RerankOptions | GenerateOptions
OPTIONS: dict[Task, type[Options]] = {
    Task.TRANSLATE: TranslateOptions,
    Task.SCORE: ScoreOptions,
    Task.RERANK: RerankOptions,
    Task.GENERATE: GenerateOptions,
}


def has_payload(task: str, options: Mapping[str, Any]) -> bool:
    """Whether the text of a job's documents is JSON: a query, a pair or messages. `options`: as in the job's row."""
    return task == Task.RERANK or bool(options.get("pairs") or options.get("chat"))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The task, the model with its revision on disk, and the options of a job."""

    task: Task
    model: str  # a name, or the absolute path of a model folder
    model_revision: str  # sha256 over the model's files
    options: Options  # of the task
    providers: ProviderOrder = ONNX_ALONE  # that may answer it, the first one first

    @property
    def legs(self) -> "tuple[JobSpec, ...]":
        """The translations that a document goes through, each as the spec of its model alone, so that a sentence has
        the result, and the place in the memory, that it has in a job of that model. Of a job without routes, itself."""
        if not isinstance(self.options, TranslateOptions) or not self.options.routes:
            return (self,)
        (route,) = self.options.routes
        return self._legs(route)

    @property
    def models(self) -> "tuple[JobSpec, ...]":
        """The legs of all routes, each model once. Of a job without routes, itself."""
        if not isinstance(self.options, TranslateOptions) or not self.options.routes:
            return (self,)
        legs = {leg.model_revision: leg for route in self.options.routes for leg in self._legs(route)}
        return tuple(legs.values())

    def on_route(self, language: str | None) -> "JobSpec":
        """The spec of the documents of a language: with their route alone, or where that is one model, the spec of this
        model. Of a job without routes, itself."""
        if not isinstance(self.options, TranslateOptions) or not self.options.routes:
            return self
        route = next(one for one in self.options.routes if one.language == language)
        if len(route.legs) == 1:
            return self._legs(route)[0]
        return dataclasses.replace(
            self,
            model=route.models,
            model_revision=revision_of([route]),
            options=dataclasses.replace(self.options, routes=(route,)),
        )

    def _legs(self, route: Route) -> "tuple[JobSpec, ...]":
        return tuple(self._leg(leg, is_last=number == len(route.legs)) for number, leg in enumerate(route.legs, 1))

    def _leg(self, leg: Leg, *, is_last: bool) -> "JobSpec":
        assert isinstance(self.options, TranslateOptions)
        options = dataclasses.replace(
            self.options,
            routes=(),
            source_language=leg.source_language,
            target_language=leg.target_language,
            n_best=self.options.n_best if is_last else 1,  # the second model reads the best
        )
        return dataclasses.replace(self, model=leg.model, model_revision=leg.model_revision, options=options)

    def options_json(self) -> str:
        """Canonical JSON: sorted keys, so that equal options are equal text.

        Options of later versions are left out at their default, so that a job that was submitted before them is the
        same job.
        """
        values = dataclasses.asdict(self.options)
        for name, default in _ADDED_LATER.items():
            if name in values and values[name] == default:
                del values[name]
        if isinstance(self.options, TranslateOptions | GenerateOptions):
            values["cache"] = str(self.options.cache)
        if isinstance(self.options, ScoreOptions):  # added later, too
            if self.options.reuse:
                del values["reuse"]
            if self.options.source_language == "en":
                del values["source_language"]
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    def digest(self) -> str:
        """sha256 of everything that decides the result of a document, besides its text."""
        parts = [self.task, self.model_revision, _as_before(self.options_json(), self.options)]
        if not self.providers.is_default:  # so that a job of an older version is the same job
            parts.append(self.providers.identity())
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def memory_digest(self) -> bytes:
        """sha256 of everything that decides the translation of a segment or the score of a document, besides its text:
        part of the keys of the memories. (Reranking and generating have no memory.)

        `cache`, `batch_size` and `packing` change no token, but they are included: a user who varies them wants to
        measure the computation. The language of a segment is left to the models that know it (`memory_key`).
        """
        values = json.loads(_as_before(self.options_json(), self.options))
        if isinstance(self.options, TranslateOptions):
            del values["source_language"]
        for name in ("reuse", "timing"):
            values.pop(name, None)
        if values.get("n_best", 1) > 1:
            values["equal_texts"] = "kept"  # an earlier version dropped equal texts, so its entries may have fewer
        return hashlib.sha256(f"{self.model_revision}\n{json.dumps(values, sort_keys=True)}".encode()).digest()

    @classmethod
    def restore(
        cls, *, task: str, model: str, model_revision: str, options_json: str, providers_json: str | None = None
    ) -> "JobSpec":
        """The specification of a job, from its row of `jobs`. Raises SpecError for a task or an option that this
        version does not know."""
        values: dict[str, Any] = json.loads(options_json)
        if task not in set(Task):
            raise SpecError(f"the job was submitted by a newer kvjobs: task {task} is unknown here; upgrade")
        kind = OPTIONS[Task(task)]
        if unknown := sorted(values.keys() - {field.name for field in dataclasses.fields(kind)}):
            raise SpecError(f"the job was submitted by a newer kvjobs: option {unknown[0]} is unknown here; upgrade")
        for name, read in _READERS.items():
            if name in values:
                values[name] = read(values[name])
        return cls(
            task=Task(task),
            model=model,
            model_revision=model_revision,
            options=kind(**values),
            providers=ProviderOrder.from_json(providers_json),
        )


def _as_before(options_json: str, options: Options) -> str:
    """The text of options as it was when `batch_size` was a number, by default 32: a job of today's default is the same
    job, and finds the same entries in the memories."""
    if not isinstance(options, TranslateOptions | GenerateOptions) or options.batch_size is not None:
        return options_json
    values = {**json.loads(options_json), "batch_size": _BATCH_SIZE_BEFORE}
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


_ADDED_LATER: Mapping[str, Any] = {"allow_pad": False, "batch_size": None, "routes": ()}
_BATCH_SIZE_BEFORE = 32

# Parsers of the options that are texts in JSON.
_READERS: dict[str, Callable[[Any], Any]] = {
    "cache": CachePolicy.parse,
    "timing": Timing,
    "window": Window,
    "bos": Bos,
    "method": lambda name: None if name is None else Method(name),
    "stop": tuple,
    "routes": read_routes,
}

_MAX_STOPS = 16  # each is looked for after every token
