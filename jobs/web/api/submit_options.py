"""The options of a submit over HTTP: those of `kvjobs submit` that do not name files of its machine."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from jobs.errors import SpecError
from jobs.submission.job_options import OF_EVERY_JOB, SubmitRequest
from jobs.tasks.kinds import every_option
from jobs.tasks.option import Option
from jobs.web.api.query import read_query

IDEMPOTENCY_KEY = "Idempotency-Key"
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
}
OF_SUBMIT: Mapping[str, Option] = {**OF_DRY_RUN, OPEN.name: OPEN}


@dataclass(frozen=True, slots=True)
class Asked:
    """A submit as it was asked for over HTTP."""

    request: SubmitRequest
    field_types: Mapping[str, Any] | None
    is_open: bool


def read_submit(request: Request, known: Mapping[str, Option] = OF_SUBMIT) -> Asked:
    """What the query string and the headers ask for. Raises SpecError."""
    values = read_query(request, known)
    if (key := request.headers.get(IDEMPOTENCY_KEY)) is not None and values.setdefault("key", key) != key:
        raise SpecError(f"key and the header {IDEMPOTENCY_KEY} differ; give only one of the two")
    return asked_for(values)


def asked_for(values: dict[str, Any]) -> Asked:
    """A submit with these values of options. Raises SpecError."""
    types, is_open = values.pop(FIELD_TYPES.name, None), values.pop(OPEN.name, False)
    for name in OF_MODELS:
        _refuse_path(name, values.get(name))
    for stage in values.get("then", ()):
        if isinstance(stage, Mapping):
            _refuse_path("model", stage.get("model"))
    return Asked(SubmitRequest.read(values), types, is_open)


def _refuse_path(option: str, model: Any) -> None:
    """On the command line a model may be a folder; whoever asks from elsewhere names models, and not folders here."""
    if isinstance(model, str) and (model[:1] in ("/", "~", ".", "\\") or ".." in model or "\0" in model):
        raise SpecError(f"{option} is a path, {model[:100]!r}; give a name of GET /api/models")
