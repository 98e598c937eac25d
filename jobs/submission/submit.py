"""Making a job of a corpus in one streaming pass. If it is killed, the same command continues where it stopped.

Knows: when two submits are the same job, and when a corpus is refused. Does not know: formats, SQL.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from jobs.corpus.corpus import BEIR, MAX_LINE_BYTES, Corpus
from jobs.corpus.reading import RecordReader, open_corpus
from jobs.corpus.translatable.reader import MAX_FILE_BYTES, UnitReader, content_of
from jobs.corpus.unpacking import Contents
from jobs.documents import Document, Record
from jobs.errors import CorpusError, KeyTaken, KvjobsError
from jobs.queues import CPU, check_queue
from jobs.spec import JobSpec
from jobs.stage import Stage
from jobs.store.database import Database
from jobs.store.ingest import lifecycle
from jobs.store.ingest.lifecycle import IngestedJob
from jobs.store.ingest.new_job import JobRequest
from jobs.store.job_files import StoredFile, store_files
from jobs.store.schema.states import JobState
from jobs.submission.corpus_check import check_records
from jobs.submission.document_changes import with_changes
from jobs.submission.filter_fields import resolve_fields
from jobs.submission.job_name import check_name, key_digest
from jobs.submission.progress import OnProgress, ProgressReporter
from jobs.submission.shards import cut_batches, shard_tokens
from jobs.submission.submitted_job import PriorState, SubmittedJob
from jobs.system.failpoints import failpoint
from jobs.tolerance import Tolerance

# + 1 when a reader makes other documents of the same bytes, which is then another job. (Not when it takes lines that it
# rejected before: a job that was complete stays so, and --again reads them.)
READERS = 1
SHOWN_REJECTED = 20
SKIPPED_PER_STEP = 20_000

PRIOR_STATES = {
    JobState.INGESTING: PriorState.RESUMED,
    JobState.RUNNING: PriorState.RUNNING,
    JobState.DONE: PriorState.COMPLETE,
    JobState.CANCELLED: PriorState.CANCELLED,
}


def submit(
    database: Database,
    corpus: Corpus,
    spec: JobSpec,
    *,
    stages: Sequence[Stage] = (),
    name: str | None = None,
    key: str | None = None,
    priority: int = 0,
    queue: str = CPU,
    strict: bool = False,
    max_rejected: Tolerance | None = None,
    again: bool = False,
    owner: str | None = None,
    max_open: int | None = None,
    notify: Sequence[str] = (),
    spool: Path,
    on_progress: OnProgress | None = None,
) -> SubmittedJob:
    """Submit a corpus: the job that processes each of its documents as `spec` says, followed by the jobs of `stages`.

    The same corpus and spec are the same job, however often they are submitted; with `again` another job is made where
    the earlier ones are complete. With a `key` it is the job of this key, whatever the corpus holds: one that is
    complete stays as it is. `strict` refuses a corpus with any rejected line, `max_rejected` one with more than
    it allows: then nothing is stored. What it allows is stored with the job. A pipe is copied to the folder `spool`
    meanwhile. `owner`: who submits it; with `max_open` it may have at most so many jobs that have not ended.
    `notify`: addresses that get a webhook when the job ends.

    Raises CorpusError where the corpus as a whole is refused, SpecError where a filter names a field that none of its
    first documents has, and where the job of the key has other options, LimitReached where the owner has too many open
    jobs. After a TransientError the written documents stay, and the same submit continues behind them.
    """
    check_name(name)
    reporter = ProgressReporter(on_progress)
    with open_corpus(corpus, spool, reporter.saw_bytes) as (contents, reader):
        units = reader if isinstance(reader, UnitReader) else None
        reader = with_changes(reader, corpus, spec)
        reporter.begin(reader, contents)
        records = check_records(corpus, reader)  # before there is a job: a corpus without a document makes none
        found, records = resolve_fields(stages, records)
        request = JobRequest(
            spec=spec,
            stages=found,
            content_key=(
                (lambda number: _content_key(corpus, contents.digest, spec, stages, number))
                if key is None
                else (lambda _number: key_digest("key", key, owner))
            ),
            source=corpus.source,
            source_is_file=corpus.is_file,
            corpus_digest=contents.digest,
            reading=corpus.reading,
            name=name,
            priority=priority,
            queue=check_queue(queue),
            again=again,
            owner=owner,
            max_open=max_open,
            notify=notify,
        )
        job, is_new = lifecycle.begin(database, request)
        if key is not None and job.options_digest != spec.digest():
            raise KeyTaken(
                f"the key {key!r} belongs to job {job.job_id}, which has another task, model or options; choose "
                "another key, or submit with its options"
            )
        prior_state, without_id = PriorState.NEW if is_new else _prior_state(job), 0
        if job.state == JobState.INGESTING:
            how = _Filling(shard_tokens(spec.task), key, is_stream=corpus.is_passing)
            job, without_id = _fill(database, job, reader, how, records, contents, reporter)
            if units is not None:
                store_files(database, job.job_id, _with_content(units, corpus), is_only_copy=not corpus.lies_here)
    tolerance = Tolerance(lines=0) if strict else max_rejected
    if tolerance is not None and not tolerance.allows(job.rejected, job.documents):
        refusal = _refusal(database, corpus, job, None if strict else max_rejected)
        lifecycle.remove(database, job.job_id)
        raise refusal
    failpoint("before-ingest-finish")
    job = lifecycle.finish(database, job, max_rejected)
    return SubmittedJob(
        job_id=job.job_id,
        name=job.name,
        state=job.state,
        prior_state=prior_state,
        documents=job.documents,
        rejected=job.rejected,
        shards=job.shards,
        estimated_tokens=job.estimated_tokens,
        without_id=without_id,
    )


def _prior_state(job: IngestedJob) -> PriorState:
    return PriorState.CANCELLED if job.is_cancelling else PRIOR_STATES[job.state]


def _content_key(corpus: Corpus, corpus_digest: str, spec: JobSpec, stages: Sequence[Stage], number: int) -> str:
    """sha256 of everything that identifies a job; `number` distinguishes those that were made with `again`."""
    if corpus.run is None:
        fields = corpus.payload_fields.values()
        # Keys are older than the larger default of scores.
        limit = corpus.line_limit if corpus.has_own_limit else MAX_LINE_BYTES[corpus.payload_kind]
        read: list[object] = [READERS, corpus.read_as, corpus.packing, corpus.id_field, *fields, limit]
        if corpus.has_own_limit and corpus.in_windows:
            read.append("own limit")
        if corpus.has_own_separator:
            read.append(corpus.separator)
        if corpus.columns is not None:
            read.append(["columns", *corpus.columns])
        if corpus.decoded_as is not None:
            read.append(["encoding", corpus.decoded_as])
        if corpus.requests is not None:
            read.append([*corpus.requests.reading.items()])
        if corpus.is_translatable and corpus.units.again:
            read.append("units with a translation")
        if corpus.language_field is not None:
            read += ["language", corpus.language_field, corpus.default_language or ""]
        if corpus.own_fields:
            read.append(["own options", sorted(corpus.own_fields.items())])
    else:
        read = [READERS, BEIR]
    parts = [corpus_digest, read, spec.digest(), number]
    if stages:  # a job alone has the key that it always had
        parts.append([stage.identity() for stage in stages])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Filling:
    """How the documents of a corpus are written."""

    max_shard_tokens: int
    key: str | None  # that names the job: then another submit may write other documents into it
    is_stream: bool  # nobody can read the corpus again: a job that it cannot fill is of no use


def _fill(
    database: Database,
    job: IngestedJob,
    reader: RecordReader,
    how: _Filling,
    records: Iterator[Record],
    contents: Contents,
    reporter: ProgressReporter,
) -> tuple[IngestedJob, int]:
    """Write the documents that the job lacks; the job afterwards, and how many of them have no id of the corpus. On a
    CorpusError the job is abandoned, of a stream it is removed, unless another submit writes it. Raises KeyTaken where
    the key names a job into which other documents are written."""
    without_id = 0

    def report(documents: int) -> None:
        reporter.report(job.job_id, documents, job.rejected)

    def refuse_others() -> None:
        if how.key is not None and job.state == JobState.INGESTING and job.ingest_digest != written.hexdigest():
            raise KeyTaken(
                f"other documents were sent with the key {how.key!r}, and job {job.job_id} does not have all of them "
                f"yet; send those again, or choose another key, or cancel it: kvjobs cancel {job.job_id}"
            )

    written, before = _Fingerprint(), job.ingest_digest
    try:
        rest = _skip(records, job.ingested, written, report)
        if job.ingest_digest not in (None, written.hexdigest()):
            refuse_others()
            raise CorpusError(
                f"{reader.source} has changed since the first {job.ingested} documents of job {job.job_id} were read "
                "from it; submit it again to read it from the start"
            )
        for batch in cut_batches(rest, how.max_shard_tokens):
            written.update(record for shard in batch.shards for record in shard)
            if job.ingested < batch.stop:
                digest = written.hexdigest()
                job = lifecycle.add_batch(database, job.job_id, batch, before, digest, reader.line_name)
                if job.ingested == batch.start:
                    refuse_others()
                _check_still_ours(job, batch.stop)
            before = written.hexdigest()
            without_id += sum(
                [type(record) is Document and record.unnamed for shard in batch.shards for record in shard]
            )
            report(batch.stop)
            failpoint("after-ingest-batch")
        if reader.digest() != contents.digest:
            raise CorpusError(f"{reader.source} changed while it was read; submit it again once it no longer changes")
    except CorpusError as error:
        if how.is_stream:
            lifecycle.remove(database, job.job_id, if_written=[before])
        else:
            lifecycle.abandon(database, job.job_id, str(error), if_written=[before])
        raise
    refuse_others()
    return job, without_id


def _with_content(reader: UnitReader, corpus: Corpus) -> Iterator[tuple[StoredFile, bytes | None]]:
    """The files that were read to the end, with the bytes of those that are translated, and of those that are copied
    where nobody finds them again. Raises CorpusError where one has changed since."""
    for number, read in enumerate(reader.files):
        is_needed = read.is_translated or not corpus.lies_here
        content = content_of(read.file) if is_needed and read.num_bytes <= MAX_FILE_BYTES else None
        if content is not None and hashlib.sha256(content).hexdigest() != read.digest:
            raise CorpusError(f"{read.file} changed while it was read; submit it again once it no longer changes")
        row = StoredFile(
            number=number,
            path=read.file.name,
            digest=read.digest,
            num_bytes=read.num_bytes,
            first=read.first,
            documents=read.documents,
            translated=read.is_translated,
            error=read.error,
        )
        yield row, content


class _Fingerprint:
    """sha256 over the documents that a job has read so far, the same however they are cut into batches: a killed submit
    is continued only with the same documents."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def update(self, records: Iterable[Record]) -> None:
        """Add the next records."""
        parts = [
            f"{record.external_id}\0{record.text}\0{record.fields}\0"
            if type(record) is Document
            else f"{record.position}\0{record.code}\0"
            for record in records
        ]
        self._digest.update("".join(parts).encode())

    def hexdigest(self) -> str:
        """The digest of all records so far."""
        return self._digest.hexdigest()


def _skip(
    records: Iterator[Record], offset: int, written: _Fingerprint, report: Callable[[int], None]
) -> Iterator[Record]:
    """The records from the position `offset` on. Those before it are read too, for the digests."""
    position = 0
    while position < offset and (some := list(islice(records, min(SKIPPED_PER_STEP, offset - position)))):
        written.update(some)
        position += len(some)
        if position < offset:
            report(position)
    return records


def _check_still_ours(job: IngestedJob, stop: int) -> None:
    """Two submits may fill one job. Raises KvjobsError where the job was cancelled or abandoned, or was started again
    from the beginning."""
    written = job.ingested >= stop
    if job.state in (JobState.FAILED, JobState.CANCELLED) or (job.state != JobState.INGESTING and not written):
        why = f" ({job.reason})" if job.reason else ""
        raise KvjobsError(f"job {job.job_id} was cancelled or abandoned while its corpus was being read{why}")
    if not written:
        raise KvjobsError(f"job {job.job_id} was started again while its corpus was being read; submit it again")


def _refusal(database: Database, corpus: Corpus, job: IngestedJob, max_rejected: Tolerance | None) -> CorpusError:
    shown = lifecycle.first_rejected(database, job.job_id, SHOWN_REJECTED)
    lines = [f"  line {line}: {reason}" for line, reason in shown]
    if job.rejected > len(shown):
        lines.append(f"  ... and {job.rejected - len(shown)} more")
    rule, way_out = "--strict takes all or none", "submit without it"
    if max_rejected is not None:
        rule, way_out = f"--max-rejected allows {max_rejected}", "allow more"
    head = f"{corpus.source}: {job.rejected} of {job.documents} documents cannot be read, and {rule}"
    return CorpusError("\n".join([f"{head}; fix these lines, or {way_out}:", *lines]))
