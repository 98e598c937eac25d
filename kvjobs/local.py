"""The jobs of this machine's settings: the same functions that the commands call, on the same database."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from jobs.choices import WAITING
from jobs.control.actions import Action, perform, this_user
from jobs.corpus.corpus import PROGRAM
from jobs.operations.embedded_worker_starter import EmbeddedWorkerStarter
from jobs.operations.open_jobs import OpenJobs
from jobs.operations.option_names import with_names
from jobs.operations.plan import Admissions, CorpusFile, SubmitPlan, advice_on, plan_submit
from jobs.operations.results import ResultOptions, read_results
from jobs.operations.submit import count_plan, spool_of, submit_plan, wake_workers
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.job_files import list_files
from jobs.store.report.job_summary import JobSummary, find_job, state_of
from jobs.store.report.live_job import find_live_job, list_live_jobs
from jobs.store.schema.states import JobState
from jobs.submission.dry_run import dry_run_record
from jobs.submission.job_options import SubmitRequest
from jobs.submission.submitted_job import PriorState
from jobs.text.json_text import to_json
from jobs.worker_port import worker_port
from kvjobs.backend import Submitted, Values
from kvjobs.rows import Rows

MOST_LISTED = 1 << 31  # files: all


class LocalJobs:
    """Jobs in a database that this process opens. A worker that it starts for a job goes on until `close`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._database = Database.open(settings.database_url, busy_timeout_s=settings.busy_timeout_s)
        self.where = self._database.shown_url
        self.spool = spool_of(settings)
        self.shortest_poll_s = 0.005
        self._starting = threading.Lock()
        self._admissions = Admissions()
        self._seen: JobSummary | None = None  # of the last look: whoever waits has just looked
        self._notes: list[str] = []
        self._starter = EmbeddedWorkerStarter(settings, self._database, self._notes.append)
        self._open_jobs = OpenJobs(self._database, settings, self._starter.wake)

    def submit(self, rows: Rows, options: Values) -> Submitted:
        plan, notes = self._plan(rows, options)
        submitted = submit_plan(self._database, plan, self._settings, owner=this_user())
        if problem := wake_workers(self._database, submitted, self._settings):
            notes.append(problem)
        self._starter.wake()
        return Submitted(self.job(str(submitted.job_id)), submitted.prior_state, [*map(with_names, notes)])

    def dry_run(self, rows: Rows, options: Values) -> dict[str, Any]:
        plan, notes = self._plan(rows, options)
        counted, tokens_per_s = count_plan(self._database, plan, self._settings)
        return _plain(dry_run_record(counted, plan.spec, plan.stages, tokens_per_s) | {"notes": notes})

    def open_job(self, options: Values) -> Submitted:
        notes: list[str] = []
        request = SubmitRequest.read(options)
        job_id, is_new = self._open_jobs.open(
            request, tell=notes.append, admissions=self._admissions, owner=this_user()
        )
        return Submitted(self.job(str(job_id)), PriorState.NEW if is_new else PriorState.RUNNING, notes)

    def append(self, job_id: int, documents: Sequence[Values]) -> list[dict[str, Any]]:
        return self._open_jobs.append(job_id, documents)

    def outcomes(self, job_id: int, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        found = {name: orjson.loads(line) for name, line in self._open_jobs.outcomes(job_id, ids).items()}
        return {name: record for name, record in found.items() if record["status"] != WAITING}

    def ended_documents(self, job_id: int) -> Iterator[bytes]:
        for lines in self._open_jobs.follow(job_id):
            yield from lines

    def job(self, reference: str) -> dict[str, Any]:
        with self._database.reading() as connection:
            self._seen = job = find_live_job(connection, reference, self._settings.lease_s)
        return _plain(job.as_object())

    def may_have_ended(self, job_id: int) -> bool:
        with self._database.reading() as connection:
            return state_of(connection, job_id) != JobState.RUNNING

    def jobs(self, states: Sequence[str], limit: int) -> list[dict[str, Any]]:
        with self._database.reading() as connection:
            found = list_live_jobs(connection, self._settings.lease_s, states=states, limit=limit)
        return [_plain(job.as_object()) for job in found]

    def act(self, job_id: int, action: str, *, reason: str | None, priority: int | None) -> dict[str, Any]:
        perform(self._database, str(job_id), Action(action), this_user(), reason=reason, priority=priority)
        self._starter.wake()
        return self.job(str(job_id))

    def results(self, job_id: int, options: Values) -> Iterable[bytes]:
        return read_results(self._database, str(job_id), ResultOptions.read(options), tell=_ignore)

    def files(self, job_id: int) -> list[dict[str, Any]]:
        with self._database.reading() as connection:
            job = find_job(connection, str(job_id))
            found = list_files(connection, job_id, job.chain or job_id, MOST_LISTED)
        return [file.as_object() for file in found]

    def models(self) -> list[dict[str, Any]]:
        found = worker_port().installed_models(self._settings.models_dir)
        return [_plain({name: getattr(model, name) for name in _MODEL_FIELDS}) for model in found]

    def see_to_worker(self, job_id: int) -> str:
        job = self._seen
        if job is None or job.job_id != job_id:
            with self._database.reading() as connection:
                job = find_job(connection, str(job_id))
        with self._starting:
            self._starter.start_if_needed(job)
        return self._starter.note

    def close(self) -> None:
        """Let the worker finish its batch and end, and close the database."""
        self._open_jobs.close()
        self._starter.release()
        self._starter.stop()
        self._database.close()

    def _plan(self, rows: Rows, options: Values) -> tuple[SubmitPlan, list[str]]:
        notes: list[str] = []
        values = {**options, **({"format": rows.format.value} if rows.format else {})}
        source = "" if rows.stream is None and not rows.is_copy else PROGRAM
        file = CorpusFile(path=rows.path, stream=rows.stream, source=source, field_types=rows.field_types)
        plan = plan_submit(
            SubmitRequest.read(values), file, self._settings, tell=notes.append, admissions=self._admissions
        )
        notes += advice_on(plan, self._settings)
        return plan, notes


_MODEL_FIELDS = ("name", "kind", "tasks", "precision", "architecture", "is_bundled", "num_bytes", "problem")


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(to_json(values))
    return found


def _ignore(_sentence: str) -> None:
    pass
