"""The objects that the API answers and takes, as JSON Schema."""

import dataclasses
import types
import typing
from datetime import datetime
from typing import Any

from jobs.choices import SHOWN_STATES
from jobs.documents import AppendState
from jobs.store.job_files import FileState
from jobs.store.report.job_summary import COUNTED, DERIVED, UNSHOWN
from jobs.store.report.live_job import LiveJob
from jobs.web.api.openapi import JSON, Schema

TEXT, WHOLE, NUMBER, FLAG = ({"type": name} for name in ("string", "integer", "number", "boolean"))
OBJECT: Schema = {"type": "object"}
TEXTS: Schema = {"type": "array", "items": TEXT}
_OF_CLASSES: dict[Any, Schema] = {
    str: TEXT,
    int: WHOLE,
    float: NUMBER,
    bool: FLAG,
    datetime: {"type": "string", "format": "date-time"},
}


def whole(**properties: Schema) -> Schema:
    """An object with these properties, each of which it has."""
    return {"type": "object", "required": [*properties], "properties": properties}


def listed(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _of_type(kind: Any) -> Schema:
    """The schema of a field of a data class."""
    if isinstance(kind, types.UnionType):
        (inner,) = (part for part in typing.get_args(kind) if part is not type(None))
        return nullable(_of_type(inner))
    return _OF_CLASSES[kind]


def _job() -> Schema:
    hints = typing.get_type_hints(LiveJob)
    properties = {field.name: _of_type(hints[field.name]) for field in dataclasses.fields(LiveJob)}
    properties |= dict.fromkeys(COUNTED, WHOLE) | dict.fromkeys(DERIVED, nullable(NUMBER))
    properties |= {"options": OBJECT, "providers": TEXT, "max_rejected": nullable(TEXT), "reading": nullable(OBJECT)}
    properties |= {"flags": {"type": "object", "additionalProperties": WHOLE}}
    properties |= {"shown_state": {"type": "string", "enum": [*SHOWN_STATES]}}
    return whole(**{name: schema for name, schema in properties.items() if name == "reading" or name not in UNSHOWN})


JOB = _job()
JOBS = whole(jobs=listed(JOB), next=nullable(WHOLE))
SUBMITTED = whole(
    job=JOB, prior_state={"type": "string", "enum": ["new", "resumed", "running", "complete"]}, notes=TEXTS
)
ACTED = whole(job=JOB, documents=WHOLE)
DRY_RUN = whole(
    dry_run=FLAG,
    task=TEXT,
    model=TEXT,
    documents=WHOLE,
    rejected=WHOLE,
    shards=WHOLE,
    estimated_tokens=WHOLE,
    tokens=nullable(WHOLE),
    notes=TEXTS,
)
MODELS = whole(
    models=listed(
        whole(
            name=TEXT,
            kind=nullable(TEXT),
            tasks=TEXTS,
            precision=nullable(TEXT),
            architecture=nullable(TEXT),
            is_bundled=FLAG,
            num_bytes=WHOLE,
            problem=nullable(TEXT),
        )
    )
)
FILES = whole(
    files=listed(
        whole(
            path=TEXT,
            state={"type": "string", "enum": [*FileState]},
            num_bytes=WHOLE,
            units=WHOLE,
            translated=WHOLE,
            error=nullable(TEXT),
        )
    ),
    next=nullable(WHOLE),
)
OF_AN_OPTION = whole(name=TEXT, help=TEXT, schema=OBJECT)
OPTIONS = whole(
    tasks=listed(whole(name=TEXT, default_model=TEXT, options=listed(OF_AN_OPTION))), results=listed(OF_AN_OPTION)
)
LINES = "application/x-ndjson"
CORPUS: Schema = {
    "description": "the corpus: JSON Lines, or what `format` or `filename` says; gz, zst, xz and bz2 are unpacked. Or "
    "files that come back translated: one, an archive of several, or a form of them",
    "content": {
        LINES: {"schema": TEXT},
        "application/octet-stream": {"schema": {}},
        "application/zip": {"schema": {}},
        "multipart/form-data": {"schema": {"type": "object", "properties": {"file": listed(TEXT)}}},
    },
}
GLOSSARY: Schema = {
    "description": "the terms: what a .tsv or .tbx file holds, or an object of JSON; gz is unpacked",
    # Any text is a list of terms that stay, so no schema says more than the media type.
    "content": {"text/tab-separated-values": {"schema": {}}, "application/octet-stream": {"schema": {}}},
}
STORED_GLOSSARY = whole(glossary=TEXT, terms=WHOLE)
ACTION: Schema = {
    "content": {JSON: {"schema": {"type": "object", "properties": {"reason": nullable(TEXT), "priority": {}}}}}
}
DOCUMENTS: Schema = {
    "description": "documents as JSON Lines, each with an id",
    "content": {LINES: {"schema": TEXT}, "application/octet-stream": {"schema": {}}},
}
APPENDED = whole(
    documents=listed(
        whole(
            id=nullable(TEXT),
            position=nullable(WHOLE),
            state={"type": "string", "enum": [*AppendState]},
            code=nullable(TEXT),
            reason=nullable(TEXT),
        )
    )
)
IDS: Schema = {"content": {JSON: {"schema": {"type": "object", "properties": {"ids": TEXTS}}}}}
OUTCOMES = whole(outcomes={"type": "object", "additionalProperties": nullable(OBJECT)})
