"""Planning a submit: its models exist and can do what the options ask, and its corpus can be read so.

values --SubmitRequest.read--> SubmitRequest --plan_submit--> SubmitPlan --submit_plan--> job
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from jobs.corpus.corpus import Corpus
from jobs.corpus.openai.requests import Requests
from jobs.corpus.translatable.file_list import links_below
from jobs.corpus.translatable.reader import UnitReading
from jobs.documents import listed
from jobs.errors import SpecError
from jobs.files.formats import suffix_of
from jobs.operations.requests import with_requests
from jobs.operations.stages import read_stages
from jobs.routing.plan import AUTO, PivotRequest, PlannedRoute, plan_by_language
from jobs.routing.table import RouteTable
from jobs.routing.target_language import target_language_of
from jobs.settings import Settings
from jobs.spec import JobSpec
from jobs.stage import Stage
from jobs.submission.job_options import JobOptions, SubmitRequest
from jobs.submission.open_job import corpus_of_documents
from jobs.tasks.document_options import FIELDS
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.kind import PayloadKind
from jobs.tasks.kinds import KINDS
from jobs.tasks.option import Option, options_of
from jobs.tasks.rerank import RUN
from jobs.tasks.score import SOURCE_FIELD, TARGET_FIELD
from jobs.tasks.shared_options import TEXT_FIELD
from jobs.tasks.translate import LANGUAGE_FIELD, VIA, VIA_MODEL, Placeholders, TranslateOptions
from jobs.text.formatting import counted
from jobs.worker_port import worker_port

MOST_ADMISSIONS = 100
OF_A_CORPUS = ("then", "strict", "max_rejected", "again")  # options that a job without a corpus lacks


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusFile:
    """Where the documents of a submit are: at a path, or in an open file that can be read twice."""

    path: str  # `-`: standard input, or `stream`
    stream: BinaryIO | None = None
    source: str = ""  # what the stream is called in messages and in the job's row
    field_types: Mapping[str, Any] | None = None  # as `Corpus.field_types`


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitPlan:
    """A submit that was checked: what is computed, and of which documents."""

    request: SubmitRequest
    spec: JobSpec
    stages: Sequence[Stage]  # of the chain, behind the first one
    corpus: Corpus

    @property
    def model_specs(self) -> list[JobSpec]:
        """The specifications of the stages that have a model, the first one's first."""
        return [self.spec, *(stage.spec for stage in self.stages if isinstance(stage.spec, JobSpec))]


class Admissions:
    """What was admitted before, for a program that submits often: opening a model to ask what it can do takes longer
    than a sentence takes. An entry is good while the files of its model stay as they are."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, JobSpec]] = {}  # by the options: the stamp of the model, the spec

    def find(self, options: str, models_dir: Path) -> JobSpec | None:
        """The spec that was made of these options, if it is good."""
        stamp, spec = self._known.get(options, ("", None))
        if spec is None or worker_port().stamp_of_name(spec.model, models_dir) != stamp:
            return None
        return spec

    def add(self, options: str, spec: JobSpec, models_dir: Path) -> None:
        """Remember a spec of one model that onnx runs."""
        if len(self._known) >= MOST_ADMISSIONS:
            self._known.clear()
        if not spec.routes and spec.providers.is_default:
            self._known[options] = worker_port().stamp_of_name(spec.model, models_dir), spec


def plan_submit(
    request: SubmitRequest,
    file: CorpusFile,
    settings: Settings,
    *,
    tell: Callable[[str], None],
    admissions: Admissions | None = None,
) -> SubmitPlan:
    """Check a submit without reading its corpus. `tell` gets a sentence for each route that is left out.

    Raises what `WorkerPort.admit` raises, SpecError for options that the model does not use or that contradict the
    corpus, CorpusError for files that are not there or not of one format.
    """
    request, requests = with_requests(request, file.path, file.stream, file.source, settings)
    spec = _admit(request, requests, settings, tell, admissions or Admissions())
    stages = read_stages(request.job.then, spec, settings)
    corpus = _corpus(request, spec, file, requests)
    if corpus.is_translatable:
        spec = _keeping_placeholders(request, spec)
    return SubmitPlan(request=request, spec=spec, stages=stages, corpus=corpus)


def plan_open(
    request: SubmitRequest,
    settings: Settings,
    *,
    tell: Callable[[str], None],
    admissions: Admissions | None = None,
) -> SubmitPlan:
    """Check a job that stays open, whose documents come later. Raises what `plan_submit` raises, and SpecError for
    options that it does not have."""
    for option in options_of(JobOptions):
        is_reading = option.of_corpus and option.name not in ("id_field", "max_text")
        if getattr(request.job, option.name) != option.default and (is_reading or option.name in OF_A_CORPUS):
            raise SpecError(f"{option.flag} is for a corpus, and an open job has one stage of documents: leave it out")
    spec = _admit(request, None, settings, tell, admissions or Admissions())
    corpus = corpus_of_documents(
        spec, id_field=request.job.id_field, max_line_bytes=request.job.max_text, **_fields(request, spec)
    )
    return SubmitPlan(request=request, spec=spec, stages=(), corpus=corpus)


def advice_on(plan: SubmitPlan, settings: Settings) -> Iterator[str]:
    """Sentences about a plan: which providers cannot do the job, what its models lack, which model was chosen. Raises
    SpecError where a model cannot run on the device of the job's queue."""
    job, spec = plan.request.job, plan.spec
    for model_spec in plan.model_specs:
        for choice in model_spec.providers.choices:
            if choice.skipped:
                yield f"{choice} is skipped: {choice.skipped}."
    for model_spec in plan.model_specs:
        yield from worker_port().advise(model_spec, settings.models_dir, job.queue)
        if model_spec is spec and job.model is None and spec.model == spec.models[0].model:
            yield f"No --model was given: {spec.kind.words.doing} with the bundled {spec.model}."
    if plan.corpus.is_translatable:
        yield from _about_files(plan.corpus)


def _keeping_placeholders(request: SubmitRequest, spec: JobSpec) -> JobSpec:
    """The spec of a job of files: placeholders are kept unless the request says otherwise. A server has no alignment to
    put them back by."""
    options = spec.options
    if not isinstance(options, TranslateOptions) or "placeholders" in request.of_task or not spec.providers.is_default:
        return spec
    return replace(spec, options=replace(options, placeholders=Placeholders.AUTO))


def _about_files(corpus: Corpus) -> Iterator[str]:
    """Which files of a corpus of files are translated, and what becomes of the others."""
    files = corpus.files or ()
    others = [file.name for file in files if suffix_of(file.name) is None]
    if len(files) > 1:
        copied = f", and {counted(len(others), 'other')} to copy ({listed(others, 3)})" if others else ""
        yield f"{counted(len(files) - len(others), 'file')} to translate{copied}."
    if os.path.isdir(corpus.path) and (links := links_below(os.fspath(corpus.path))):
        yield f"{counted(len(links), 'link')} left out ({listed(links, 3)})."


def _admit(
    request: SubmitRequest,
    requests: Requests | None,
    settings: Settings,
    tell: Callable[[str], None],
    admissions: Admissions,
) -> JobSpec:
    job, options, fallback = request.job, request.read_task_options(), not request.job.no_fallback
    if requests is not None and isinstance(options, GenerateOptions):
        options = replace(options, own_options=True)
    if not isinstance(options, TranslateOptions) or not (routes := _planned_routes(request, settings.route_table)):
        given = repr((job.task, job.model, job.providers, fallback, options))
        if (spec := admissions.find(given, settings.models_dir)) is None:
            spec = worker_port().admit(job.task, job.model, options, settings, job.order, fallback=fallback)
            admissions.add(given, spec, settings.models_dir)
        return spec
    is_auto = job.model == AUTO
    return worker_port().admit_routes(
        routes,
        AUTO if is_auto else None,
        options,
        settings,
        job.order,
        fallback=fallback,
        leave_out=tell if is_auto else None,
    )


def _planned_routes(request: SubmitRequest, table: RouteTable) -> tuple[PlannedRoute, ...]:
    """The routes of a submit that translates; none: one model translates. Raises SpecError where a model is neither
    named nor in the table."""
    given, model = request.of_task, request.job.model
    via, via_model, target = (given.get(name) for name in (VIA.name, VIA_MODEL.name, "target_language"))
    if model == AUTO:
        _refuse_beside_auto(request)
        return plan_by_language(table, target)
    if LANGUAGE_FIELD.name in given:
        raise SpecError(f"--language-field is for --model {AUTO}, which chooses models by it: leave it out")
    if via is None and via_model is None:
        return ()
    asked = PivotRequest(model=model, via=via, via_model=via_model, source=given.get("source_language"), target=target)
    return (asked.plan(table),)


def _refuse_beside_auto(request: SubmitRequest) -> None:
    for option in (VIA, VIA_MODEL):
        if request.value(option) is not None:
            raise SpecError(
                f"{option.flag} and --model {AUTO} exclude each other; a route of two models is a list in the table "
                '[routes]: "fr-de" = ["opus-mt-fr-en", "opus-mt-en-de"]'
            )


def _corpus(request: SubmitRequest, spec: JobSpec, file: CorpusFile, requests: Requests | None) -> Corpus:
    """How the corpus is read."""
    job = request.job
    if requests is not None and isinstance(spec.options, GenerateOptions):
        requests = replace(requests, options=spec.options)
    if requests is not None and spec.payload_kind is PayloadKind.PAIRS:
        raise SpecError(
            f"{spec.model} is a translation model, which scores pairs; {requests.kind.endpoint} scores a text"
        )
    return Corpus(
        path=file.path,
        stream=file.stream,
        stream_source=file.source,
        field_types=file.field_types,
        format=job.format,
        delimiter=job.delimiter,
        columns=job.columns,
        encoding=job.encoding,
        max_line_bytes=job.max_text,
        in_windows=spec.kind.in_windows,
        units=_unit_reading(request, spec),
        payload_kind=spec.payload_kind,
        requests=requests,
        id_field=job.id_field,
        run=request.value(RUN),
        **_fields(request, spec),
    )


def _unit_reading(request: SubmitRequest, spec: JobSpec) -> UnitReading:
    """How the units of translated files are found, where the corpus is of such files."""
    options = spec.options
    if not isinstance(options, TranslateOptions):
        return UnitReading(again=request.job.again)
    return UnitReading(again=request.job.again, target_language=target_language_of(spec.model, options.target_language))


def _fields(request: SubmitRequest, spec: JobSpec) -> dict[str, Any]:
    """The fields of a payload and of its language, which the task decides, and for scoring the model. Raises SpecError
    for a field that the model does not read."""
    if spec.payload_kind is PayloadKind.PAIRS:
        _refuse_given(request, [TEXT_FIELD], spec.model, "scores pairs of a source and a target")
    else:
        _refuse_given(request, [SOURCE_FIELD, TARGET_FIELD], spec.model, "is a language model, which scores a text")
    fields = (TEXT_FIELD, SOURCE_FIELD, TARGET_FIELD)
    own = {name: field for name, option in FIELDS.items() if (field := request.of_task.get(option.name)) is not None}
    if "target_language" in own and spec.routes:
        raise SpecError(
            f"{FIELDS['target_language'].flag} is for one model, and this job goes through several, whose languages "
            "the route decides: leave it out, or submit a job for each language"
        )
    if "glossary_subset" in own and getattr(spec.options, "glossary", None) is None:
        raise SpecError(
            f"{FIELDS['glossary_subset'].flag} chooses terms of a glossary, and none is given: add --glossary FILE"
        )
    if "prefix" in own and any(len(route.legs) > 1 for route in spec.routes):
        raise SpecError(f"{FIELDS['prefix'].flag} is for a translation by one model: leave it out, or --via")
    if "prefix" in own and not spec.providers.is_default:
        raise SpecError(
            f"{FIELDS['prefix'].flag} is for translation models, which onnx runs, and not for a server: leave it out, "
            "or --providers"
        )
    return _languages(request) | {"own_fields": own} | {option.name: request.value(option) for option in fields}


def _languages(request: SubmitRequest) -> dict[str, Any]:
    """Where a document's language is, if models are chosen by it."""
    if not KINDS[request.job.task].is_between_languages or request.job.model != AUTO:
        return {}
    default = request.of_task.get("source_language")
    return {"language_field": request.value(LANGUAGE_FIELD), "default_language": default}


def _refuse_given(request: SubmitRequest, options: Sequence[Option], model: str, why: str) -> None:
    """Raise SpecError if one of these options was given: a model of this kind does not use them."""
    for option in options:
        if option.name in request.of_task:
            raise SpecError(f"{option.flag} has no meaning here: {model} {why}; leave it out")
