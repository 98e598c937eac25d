"""A job that stays open: documents are appended to it, from many threads and machines, while workers process it.

    job, is_new = open_job(database, corpus_of_documents(spec), spec, key="comments of 2026")
    append(database, job, [{"id": "7", "text": "..."}])    # as often as there are documents; each has an id
    jobs.store.jobs.close(database, job.job_id)            # then it ends as any other job

Documents are read as the lines of a corpus of JSON Lines are; one that cannot be read is refused and not stored, since
its sender is still there to be told.
"""

import io
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from jobs.corpus.corpus import Corpus
from jobs.corpus.corpus_format import Format
from jobs.corpus.jsonl import read_jsonl
from jobs.documents import Appended, AppendState, Document, Record, Reject, reject
from jobs.errors import SpecError
from jobs.queues import CPU, check_queue
from jobs.spec import JobSpec
from jobs.stage import Stage
from jobs.store.database import Database
from jobs.store.ingest import open_job as store
from jobs.store.ingest.new_job import JobRequest
from jobs.submission.document_changes import changed, changes_of
from jobs.submission.job_name import check_name, key_digest
from jobs.submission.shards import cut_batches, shard_tokens
from jobs.tasks.document_options import FIELDS
from jobs.text.json_text import to_json

DEFAULT_LANGUAGE = "default_language"  # in the stored reading: no line of a corpus is read with it again
NAMED = ("text_field", "source_field", "target_field")  # fields of the payload that a caller may name


@dataclass(frozen=True, slots=True)
class OpenJob:
    """A job that documents are appended to, and how they are read."""

    job_id: int
    spec: JobSpec
    corpus: Corpus
    is_open: bool  # it was neither closed nor cancelled when this was read


def corpus_of_documents(spec: JobSpec, **fields: Any) -> Corpus:
    """How the documents of an open job are read: as those of a corpus of JSON Lines. `fields`: `id_field`,
    `text_field`, `source_field`, `target_field`, `language_field`, `default_language`, `own_fields`,
    `max_line_bytes` of `Corpus`."""
    kind, in_windows = spec.payload_kind, spec.kind.in_windows
    return Corpus(path="-", format=Format.JSONL, payload_kind=kind, in_windows=in_windows, **fields)


def open_job(
    database: Database,
    corpus: Corpus,
    spec: JobSpec,
    *,
    name: str | None = None,
    priority: int = 0,
    queue: str = CPU,
    key: str | None = None,
    stages: Sequence[Stage] = (),
    owner: str | None = None,
    max_open: int | None = None,
    notify: Sequence[str] = (),
) -> tuple[OpenJob, bool]:
    """Open a job that processes each document that is appended, as `spec` says; and whether it is a new one. The same
    `key` with the same options is the same job, also after it was closed (`OpenJob.is_open` says so). Without a key it
    is a new job each time. `owner`: who opens it; with `max_open` it may have at most so many jobs that have not ended.
    `notify`: addresses that get a webhook when the job ends.

    Raises SpecError where there are `stages` of a chain, where the job that has the key has other options, or where
    another job has the name, LimitReached where the owner has too many jobs.
    """
    if stages:
        raise SpecError(
            "a job that stays open has no later stages; submit a corpus with --then, or open a job for each step and "
            "append what the one before it gives"
        )
    check_name(name)
    content_key = key_digest("open", uuid.uuid4().hex if key is None else key, owner)
    request = JobRequest(
        spec=spec,
        content_key=lambda _number: content_key,
        source=store.SOURCE,
        source_is_file=False,
        corpus_digest=store.NO_CORPUS,
        reading=_reading(corpus),
        name=name,
        priority=priority,
        queue=check_queue(queue),
        again=False,
        owner=owner,
        max_open=max_open,
        notify=notify,
    )
    job_id, is_new = store.begin_open(database, request)
    return find_open_job(database, job_id), is_new


def find_open_job(database: Database, job_id: int) -> OpenJob:
    """The open job with this number, or one that was open before. Raises NotFoundError where there is no such job,
    SpecError for a job of a corpus."""
    stored = store.read_open(database, job_id)
    spec = JobSpec.restore(
        task=stored.task,
        model=stored.model,
        model_revision=stored.model_revision,
        options_json=stored.options,
        providers_json=stored.providers,
    )
    return OpenJob(job_id, spec, _corpus_of(spec, stored.reading), stored.is_open)


def append(database: Database, job: OpenJob, documents: Iterable[Mapping[str, Any] | bytes]) -> list[Appended]:
    """Append documents in one transaction: what came of each, in their order. A document is an object of JSON: its
    values, or the line. Workers can lease it at once.

    It needs an id of its own: a document with an id that the job has, the same text and the same fields is left out, so
    whoever got no answer sends it again. With another text or field it is refused, as one that cannot be read.

    Raises SpecError where the job was closed or cancelled, TransientError where the database is away: nothing is
    appended then.
    """
    records = _read(job, documents)
    found = [record for record in records if type(record) is Document]
    shards = [shard for batch in cut_batches(found, shard_tokens(job.spec.task)) for shard in batch.shards]
    appended = iter(store.append(database, job.job_id, cast(list[list[Document]], shards)))
    return [
        next(appended)
        if type(record) is Document
        else Appended(record.external_id, AppendState.REFUSED, None, record.code, record.reason)
        for record in records
    ]


def _read(job: OpenJob, documents: Iterable[Mapping[str, Any] | bytes]) -> list[Record]:
    """A record for each document, in their order."""
    corpus, changes = job.corpus, changes_of(job.corpus, job.spec)
    lines, records = [b""], list[Record]()  # the first line is blank: what is said of a file's first line does not fit
    for index, document in enumerate(documents):
        line = _line(document)
        lines.append(line if isinstance(line, bytes) else b"")
        reason = "the document is empty; write an object with an id" if isinstance(line, bytes) else line
        records.append(reject(index, index + 1, Reject.BAD_JSON, reason))  # unless its line is read
    stream = cast(io.BufferedReader, io.BytesIO(b"\n".join(lines)))
    for record in read_jsonl(stream, corpus.id_field, corpus.text_field, corpus.line_limit, corpus.take_payload):
        index = record.line - 2
        if type(record) is Document and record.unnamed:
            record = reject(index, index + 1, Reject.NO_ID, NO_ID.format(field=corpus.id_field))
        records[index] = changed(record, changes, "line {}".format)
    return records


NO_ID = (
    "the document has no id in the field {field!r}; give it one, such as a UUID, so that it can be sent again and its "
    "result be found"
)


def _line(document: Mapping[str, Any] | bytes) -> bytes | str:
    """A document as a line of JSON, or why it cannot be one."""
    if isinstance(document, bytes):
        return document.replace(b"\n", b" ")  # JSON has line ends between values alone
    try:
        return to_json(dict(document))
    except TypeError as error:
        return f"the document cannot be written as JSON: {error}"


def _reading(corpus: Corpus) -> str:
    """How documents are read, for the job's row."""
    more = {} if corpus.default_language is None else {DEFAULT_LANGUAGE: corpus.default_language}
    return json.dumps(json.loads(corpus.reading) | more)


def _corpus_of(spec: JobSpec, reading: str) -> Corpus:
    """The reverse."""
    values = json.loads(reading)
    names = {f"{role}_field": name for role, name in values["fields"].items() if f"{role}_field" in NAMED}
    kept = {name: values[name] for name in ("max_line_bytes", "language_field", DEFAULT_LANGUAGE) if name in values}
    own = {name: values[option.name] for name, option in FIELDS.items() if option.name in values}
    return corpus_of_documents(spec, id_field=values["id_field"], own_fields=own, **names, **kept)
