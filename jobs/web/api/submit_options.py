"""The options of a submit over HTTP: those of `kvjobs submit` that do not name files of its machine."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from jobs.corpus.translatable.received_files import stem_of
from jobs.errors import SpecError
from jobs.submission.job_options import OF_EVERY_JOB, SubmitRequest
from jobs.tasks.kinds import every_option
from jobs.tasks.option import Option
from jobs.web.api.query import read_query

IDEMPOTENCY_KEY = "Idempotency-Key"
# What a body is called that says its type and not its name.
NAMES = {
    "application/vnd.oasis.opendocument.text": "upload.odt",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "upload.docx",
    "application/x-subrip": "upload.srt",
    "application/x-tar": "upload.tar",
    "application/x-xliff+xml": "upload.xlf",
    "application/xliff+xml": "upload.xlf",
    "application/zip": "upload.zip",
    "text/html": "upload.html",
    "text/markdown": "upload.md",
    "text/vtt": "upload.vtt",
    "text/x-gettext-translation": "upload.po",
}
OF_MODELS = ("model", "via_model")


def _read_types(value: Any) -> Mapping[str, Any]:
    """Types of fields that JSON has no word for."""
    try:
        types = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"it is not JSON ({error})") from None
    if not isinstance(types, dict):
        raise SpecError("it is no object of JSON")
    return types


FIELD_TYPES = Option(
    "Types of fields that JSON has no word for, as JSON; kept in the `reading` of the job for whoever reads results.",
    name="field_types",
    parse=_read_types,
)
FILENAME = Option(
    "What the body is called, which says its format: app.po, or manual.zip or manual.tar.gz of files that come back "
    "translated; corpus.csv ...",
    name="filename",
)
OPEN = Option(
    "A job that stays open, and no body: documents are sent to it until it is closed.",
    name="open",
    type=bool,
    default=False,
)
OF_DRY_RUN: Mapping[str, Option] = {
    **OF_EVERY_JOB,
    **{name: option for name, option in every_option().items() if not option.is_file},
    FIELD_TYPES.name: FIELD_TYPES,
    FILENAME.name: FILENAME,
}
OF_SUBMIT: Mapping[str, Option] = {**OF_DRY_RUN, OPEN.name: OPEN}


@dataclass(frozen=True, slots=True)
class Asked:
    """A submit as it was asked for over HTTP."""

    request: SubmitRequest
    field_types: Mapping[str, Any] | None
    is_open: bool
    filename: str | None = None  # of the body


def read_submit(request: Request, known: Mapping[str, Option] = OF_SUBMIT) -> Asked:
    """What the query string and the headers ask for. Raises SpecError."""
    values = read_query(request, known)
    if (key := request.headers.get(IDEMPOTENCY_KEY)) is not None and values.setdefault("key", key) != key:
        raise SpecError(f"key and the header {IDEMPOTENCY_KEY} differ; give only one of the two")
    return asked_for(values)


def name_of_body(request: Request, asked: Asked) -> str:
    """What the body is called; empty where neither the request nor its type says it."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return stem_of(asked.filename or "") or ("" if asked.request.job.format else NAMES.get(media_type, ""))


def asked_for(values: dict[str, Any]) -> Asked:
    """A submit with these values of options. Raises SpecError."""
    types, is_open = values.pop(FIELD_TYPES.name, None), values.pop(OPEN.name, False)
    filename = values.pop(FILENAME.name, None)
    for name in OF_MODELS:
        _refuse_path(name, values.get(name))
    for stage in values.get("then", ()):
        if isinstance(stage, Mapping):
            _refuse_path("model", stage.get("model"))
    return Asked(SubmitRequest.read(values), types, is_open, filename)


def _refuse_path(option: str, model: Any) -> None:
    """On the command line a model may be a folder; whoever asks from elsewhere names models, and not folders here."""
    if isinstance(model, str) and (model[:1] in ("/", "~", ".", "\\") or ".." in model or "\0" in model):
        raise SpecError(f"{option} is a path, {model[:100]!r}; give a name of GET /api/models")
