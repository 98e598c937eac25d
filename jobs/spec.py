"""The specification of a job: task, model, options; frozen values that are checked when they are made. Needs only
the standard library."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobs.errors import SpecError
from jobs.providers import ONNX_ALONE, ProviderOrder
from jobs.routing.routes import Leg, Route, revision_of
from jobs.tasks.document_options import with_own
from jobs.tasks.kind import Kind, PayloadKind
from jobs.tasks.kinds import KINDS, OPTIONS, Options
from jobs.tasks.option import options_of
from jobs.tasks.shared_options import CachePolicy
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from jobs.terms.glossary import Glossary


def has_payload(task: str, options: Mapping[str, Any]) -> bool:
    """Whether the text of a job's documents is JSON: a query, a pair or messages. `options`: as in the job's row."""
    return KINDS[task].payload_kind(options) is not PayloadKind.TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The task, the model with its revision on disk, and the options of a job."""

    task: Task
    model: str  # a name, or the absolute path of a model folder
    model_revision: str  # sha256 over the model's files
    options: Options  # of the task
    providers: ProviderOrder = ONNX_ALONE  # that may answer it, the first one first

    @property
    def kind(self) -> Kind:
        """The declaration of the job's task."""
        return KINDS[self.task]

    @property
    def payload_kind(self) -> PayloadKind:
        """What the job reads as the payload of each document."""
        return self.kind.payload_kind(self._values)

    @property
    def routes(self) -> tuple[Route, ...]:
        """The models of each language, or of all documents; without any, the job's model alone."""
        return self.options.routes if isinstance(self.options, TranslateOptions) else ()

    @property
    def legs(self) -> "tuple[JobSpec, ...]":
        """The translations that a document goes through, each as the spec of its model alone, so that a sentence has
        the result, and the place in the memory, that it has in a job of that model. Of a job without routes, itself."""
        if not self.routes:
            return (self,)
        (route,) = self.routes
        return self._legs(route)

    @property
    def models(self) -> "tuple[JobSpec, ...]":
        """The legs of all routes, each model once. Of a job without routes, itself."""
        if not self.routes:
            return (self,)
        legs = {leg.model_revision: leg for route in self.routes for leg in self._legs(route)}
        return tuple(legs.values())

    def on_route(self, language: str | None) -> "JobSpec":
        """The spec of the documents of a language: with their route alone, or where that is one model, the spec of this
        model. Of a job without routes, itself."""
        if not isinstance(self.options, TranslateOptions) or not self.routes:
            return self
        route = next(route for route in self.routes if route.language == language)
        if len(route.legs) == 1:
            return self._legs(route)[0]
        return dataclasses.replace(
            self,
            model=route.models,
            model_revision=revision_of([route]),
            options=dataclasses.replace(self.options, routes=(route,)),
        )

    def with_own(self, own: str | None) -> "JobSpec":
        """The spec of the documents with options of their own (`jobs.tasks.document_options`), which go before those of
        the job."""
        if own is None or not isinstance(self.options, TranslateOptions):
            return self
        return dataclasses.replace(self, options=with_own(self.options, own))

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
            max_chars=self.options.max_chars if is_last else None,
        )
        return dataclasses.replace(self, model=leg.model, model_revision=leg.model_revision, options=options)

    @property
    def _values(self) -> dict[str, Any]:
        return {field.name: getattr(self.options, field.name) for field in dataclasses.fields(self.options)}

    def options_json(self) -> str:
        """Canonical JSON: sorted keys, so that equal options are equal text.

        Options of later versions are left out at their default, so that a job that was submitted before them is the
        same job.
        """
        values = self._values
        for option in options_of(type(self.options)):
            if option.is_later and values[option.name] == option.default:
                del values[option.name]
        return json.dumps(values, default=_plain, sort_keys=True, separators=(",", ":"))

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
        for option in options_of(type(self.options)):
            if not option.in_memory:
                values.pop(option.name, None)
        if getattr(self.options, "max_chars", None) is not None:
            values["n_best"] = "the beam"  # any of its hypotheses may be what fits
        elif values.get("n_best", 1) > 1:
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
        values |= {
            option.name: option.read(values[option.name]) for option in options_of(kind) if option.name in values
        }
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
    if getattr(options, "batch_size", _BATCH_SIZE_BEFORE) is not None:
        return options_json
    values = {**json.loads(options_json), "batch_size": _BATCH_SIZE_BEFORE}
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


_BATCH_SIZE_BEFORE = 32


def _plain(value: CachePolicy | Glossary | Route) -> Any:
    return str(value) if isinstance(value, CachePolicy | Glossary) else dataclasses.asdict(value)
