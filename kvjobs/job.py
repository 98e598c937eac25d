"""A job: its state, its results, and what can be done to it."""

import asyncio
import itertools
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Self

import orjson

from jobs.errors import KvjobsError, SpecError, TransientError
from jobs.text.formatting import count, counted, percent
from kvjobs.field_types import python_types, with_types
from kvjobs.lines import lines_of
from kvjobs.progress import progress_of
from kvjobs.tables import arrow_table, require_pyarrow

if TYPE_CHECKING:
    from jobs.addresses.address import Location
    from kvjobs.backend import Backend

POLL_S = 0.5  # between two looks at a job
POLLED_SHARE = 20  # of a young job it is this part of the time waited, so that the end of a small job is seen at once
REFRESH_S = 0.25  # between two looks at all that is shown of a job
PATIENCE_S = 120.0  # how long to wait for a database or a server that does not answer


class Job:
    """A job at the moment of the last look (`refresh`, `wait`)."""

    def __init__(
        self,
        backend: "Backend",
        info: dict[str, Any],
        *,
        prior_state: str | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.info = info  # the keys of `kvjobs ls --json`
        self.prior_state = prior_state  # of a submit: new, resumed, running or complete
        self.notes = tuple(notes)  # of a submit: sentences about the model and the corpus
        self._backend = backend

    @property
    def id(self) -> int:
        """The job's number."""
        return int(self.info["job_id"])

    @property
    def name(self) -> str | None:
        return None if self.info["name"] is None else str(self.info["name"])

    @property
    def task(self) -> str:
        return str(self.info["task"])

    @property
    def model(self) -> str:
        return str(self.info["model"])

    @property
    def state(self) -> str:
        """running, waiting (no worker is there), awaiting (open, without a document to process), paused, ingesting,
        cancelling, done, cancelled or failed."""
        return str(self.info["shown_state"])

    @property
    def has_ended(self) -> bool:
        return self.info["state"] in ("done", "cancelled", "failed")

    @property
    def ok(self) -> bool:
        """Whether it is done and every document has a result, but for rejected lines that `max_rejected` allows."""
        return bool(self.info["exit_code"] == 0)

    def refresh(self) -> Self:
        """Look at the job again."""
        self.info = self._backend.job(str(self.id))
        return self

    def wait(self, timeout: float | None = None, *, progress: bool = False, work: bool = True) -> Self:
        """Wait until the job has ended. `timeout`: seconds; then raises TimeoutError. `progress`: show it on standard
        error, or in the notebook. With `work` a worker is started on this machine if none serves the job; it goes on
        until the client is closed. (A server's jobs are the server's workers' own.)

        Ctrl-C ends the waiting, not the job. Raises KvjobsError where the worker failed or paused the job.
        """
        try:
            with progress_of(self, shown=progress) as update:
                for note in self._until_ended(timeout, work=work):
                    update(self, note)
                update(self, "")
        except KeyboardInterrupt:
            print(f"Job {self.id} goes on. To come back: kv.job({self.id}).wait()", file=sys.stderr)
            raise
        return self

    async def wait_async(self, timeout: float | None = None, *, work: bool = True) -> Self:
        """As `wait`, for a coroutine: the loop goes on meanwhile."""
        looks = self._looks(timeout, work=work)
        while (pause := await asyncio.to_thread(next, looks, None)) is not None:
            await asyncio.sleep(pause[0])
        return self

    def results(
        self,
        where: str | None = None,
        *,
        only: str | None = None,
        extras: Sequence[str] = (),
        chain: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """The documents that have ended, in the order of the rows, as dicts: `id`, `status`, the result (`translation`,
        `score`, `ranking` or `generation`), `error`, and the other fields, in the types that they had.

        `where`: a condition, "perplexity < 50 and lang = 'de'". `only`: ok, failed, waiting or all. `extras`: further
        values: text, log_prob, tokens. `chain`: the results of all stages. Raises SpecError.
        """
        read = python_types(self._types)
        for line in lines_of(self._backend.results(self.id, _asked("jsonl", where, only, extras, chain))):
            yield with_types(orjson.loads(line), read)

    async def results_async(self, where: str | None = None, **options: Any) -> AsyncIterator[dict[str, Any]]:
        """As `results`, for a coroutine."""
        found = self.results(where, **options)
        while some := await asyncio.to_thread(_next_of, found, 1000):
            for result in some:
                yield result

    def to_arrow(
        self, where: str | None = None, *, only: str | None = None, extras: Sequence[str] = (), chain: bool = False
    ) -> Any:
        """The results as a `pyarrow.Table`: the columns of an export as parquet, fields in the types that they had."""
        require_pyarrow()
        options = _asked("parquet", where, only, extras, chain)
        return arrow_table(self._backend.results(self.id, options), self._types)

    def to_pandas(self, where: str | None = None, **options: Any) -> Any:
        """The results as a `pandas.DataFrame`; options as of `to_arrow`."""
        return self.to_arrow(where, **options).to_pandas()

    def export(
        self,
        path: str | Path,
        *,
        format: str | None = None,
        where: str | None = None,
        only: str | None = None,
        extras: Sequence[str] = (),
        add: Sequence[str] = (),
        chain: bool = False,
    ) -> int:
        """Write the results to a file, or an address (s3://bucket/out.parquet), completely or not at all; returns their
        size in bytes, before they are compressed. The name sets the format and the compression, as of `kvjobs export`.
        Of a corpus of files that come back translated, `path` is a folder, or as for that command.
        Raises SpecError for a file that cannot be written."""
        from jobs.addresses.address import located
        from jobs.export.export_file import is_of_files
        from jobs.export.export_options import format_of
        from jobs.export.result_file import result_file

        location = located(str(path))
        if not chain and is_of_files(format, self._reading, location):
            return self._export_files(location, where)
        options = _asked(format or str(format_of(location)), where, only, extras, chain) | {"add": [*add]}
        size = 0
        with result_file(location, corpus=str(self.info["source"])) as file:
            for piece in self._backend.results(self.id, options):
                size += file.write(piece)
        return size

    def _export_files(self, location: "Location", where: str | None) -> int:
        from jobs.export.export_file import check_results_file, folder_of_files
        from jobs.export.result_file import result_file
        from jobs.export.translated_files import unpack_folder

        source, reading = str(self.info["source"]), self._reading
        check_results_file(location, task=self.task, corpus=source, reading=reading, is_chain=False)
        pieces = self._backend.results(self.id, _asked("files", where, None, (), False))
        if (folder := folder_of_files(reading, location)) is None:
            with result_file(location, corpus=source) as file:
                return sum(file.write(piece) for piece in pieces)
        with TemporaryFile() as archive:
            size = sum(archive.write(piece) for piece in pieces)
            unpack_folder(archive, folder, source)
        return size

    @property
    def files(self) -> list[dict[str, Any]]:
        """The files of a job that come back translated, and how far each is: `path`, `state` (waiting, done, partial,
        rejected, copied), `num_bytes`, `units`, `translated`, `error`. Empty for another corpus. `export` writes
        them."""
        return self._backend.files(self.id)

    def pause(self, reason: str | None = None) -> Self:
        """Let no more of it be computed until `resume`."""
        return self._act("pause", reason=reason)

    def resume(self) -> Self:
        return self._act("resume")

    def cancel(self) -> Self:
        """End it; the results that there are stay."""
        return self._act("cancel")

    def retry(self) -> Self:
        """Process its documents without a result once more."""
        return self._act("retry")

    def prioritize(self, priority: int) -> Self:
        """Higher goes first; low is -10, high is 10."""
        return self._act("priority", priority=priority)

    def __repr__(self) -> str:
        return f"<kvjobs.Job {self.id}: {self.task} with {self.model}, {self.state}, {self._counts}>"

    def _repr_html_(self) -> str:
        """The job in a notebook."""
        share = float(self.info["share_done"] or 0.0)
        name = f" ({self.info['name']})" if self.name else ""
        head = f"Job {self.id}{name}: {self.task} with {self.model}"
        return (
            f"<div><strong>{escape(head)}</strong><br>"
            f'<progress max="1" value="{share:.4f}"></progress> {escape(self.state)}, '
            f"{escape(percent(share))}: {escape(self._counts)}</div>"
        )

    @property
    def _counts(self) -> str:
        documents = counted(int(self.info["documents"]), "document")
        return f"{count(int(self.info['ok']))} of {documents} ok"

    @property
    def _reading(self) -> str | None:
        """How the corpus was read, as the job's row has it."""
        reading = self.info.get("reading")
        return orjson.dumps(reading).decode() if reading else None

    @property
    def _types(self) -> dict[str, Any] | None:
        return (self.info.get("reading") or {}).get("types")

    def _act(self, action: str, *, reason: str | None = None, priority: int | None = None) -> Self:
        self.info = self._backend.act(self.id, action, reason=reason, priority=priority)
        return self

    def _until_ended(self, timeout: float | None, *, work: bool) -> Iterator[str]:
        """Look, and sleep, until the job has ended; why it waits, after each look."""
        for pause_s, note in self._looks(timeout, work=work):
            yield note
            time.sleep(pause_s)

    def _looks(self, timeout: float | None, *, work: bool) -> Iterator[tuple[float, str]]:
        """After each look that finds it not ended: seconds until the next, and why the job waits."""
        began = answered = time.monotonic()
        refreshed, note = float("-inf"), ""
        while True:
            try:
                if time.monotonic() - refreshed > REFRESH_S or self._backend.may_have_ended(self.id):
                    self.refresh()
                    refreshed = time.monotonic()
                    if self.has_ended:
                        return
                    if self.info["paused"] and self.info["reason"]:
                        raise KvjobsError(f"job {self.id} is paused: {self.info['reason']}")
                    note = self._backend.see_to_worker(self.id) if work else ""
                answered = time.monotonic()
            except TransientError:
                if time.monotonic() - answered > PATIENCE_S:
                    raise
            waited = time.monotonic() - began
            if timeout is not None and waited >= timeout:
                raise TimeoutError(f"job {self.id} has not ended after {timeout:g} s: {self._counts}")
            pause_s = min(POLL_S, max(self._backend.shortest_poll_s, waited / POLLED_SHARE))
            yield pause_s if timeout is None else min(pause_s, timeout - waited), note


def _asked(form: str, where: str | None, only: str | None, extras: Sequence[str], chain: bool) -> dict[str, Any]:
    if isinstance(extras, str):
        raise SpecError(f"extras is {extras!r}; give a list: extras=[{extras!r}]")
    asked = {"format": form, "where": where, "only": only, "extras": [*extras], "chain": chain}
    return {name: value for name, value in asked.items() if value not in (None, [], False)}


def _next_of(iterator: Iterator[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    return list(itertools.islice(iterator, number))
