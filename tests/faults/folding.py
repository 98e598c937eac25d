"""Faults of folding: whoever folds dies at each of its steps, while workers record and people act on their jobs."""

import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field

from sqlalchemy import exists, select, text

from jobs.errors import SpecError
from jobs.store.disk_space.prune import prune_jobs
from jobs.store.jobs import cancel, retry
from jobs.store.queue.deltas import count_deltas, fold
from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.schema.states import JobState
from jobs.store.schema.tables import Job, JobCounts, ShardEvent
from tests.faults.processes_killed import OF_FOLDING as PLACES
from tests.faults.trial import Trial

PROCESSES = 2  # that fold, beside the workers
FOLD = """
import sys, time
from jobs.errors import StoreError
from jobs.store.database import Database
from jobs.store.disk_space.prune import prune_jobs
from jobs.store.jobs import cancel, retry
from jobs.store.queue.deltas import fold
database = Database.connect(sys.argv[1])
while True:
    try:
        fold(database)
    except StoreError:
        pass  # its session was ended
    time.sleep(0.02)
"""
# A fold stays for a moment where deltas are deleted and sums are not yet added, so that its session can be ended there.
SLOW_FOLDS = """
CREATE FUNCTION slow_fold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.1); RETURN NEW; END';
CREATE TRIGGER slow_fold BEFORE UPDATE ON job_counts FOR EACH ROW
    WHEN (NEW.succeeded > OLD.succeeded) EXECUTE FUNCTION slow_fold();
"""
END_FOLDS = """
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE state = 'active' AND wait_event = 'PgSleep' AND query LIKE 'WITH chosen AS (%'
"""
PRUNED, JOBS = 1, 3


def killed_at_each_step(trial: Trial) -> None:
    """Processes that fold are killed before it, before its COMMIT and behind it, and their sessions are ended in the
    middle of the statement, while workers record, and jobs end, are cancelled, retried and pruned."""
    assert trial.postgres
    times = 10 if trial.long else 2
    trial.postgres.sql(SLOW_FOLDS)
    trial.fill_memory()
    for number in range(JOBS):
        trial.submit(*(["--again"] if number else []))
    trial.keep_workers(2, KVJOBS_FAILPOINTS="after-compute:sleep=0.3:100000,in-fold:kill")
    trial.until(lambda: trial.hits()["in-fold"], "the worker that has the role dies within a fold")
    storm = Storm(trial, times)
    try:
        trial.until(
            storm.goes_on_to_its_end, f"each step of folding has killed {times} processes, and every job has ended"
        )
    finally:
        storm.end_processes()
    trial.notes.append(
        f"{storm.ended} sessions ended within a fold, {storm.jobs} jobs, of which {storm.cancelled} cancelled"
    )
    _check(trial, storm.jobs, killed=sum(trial.hits()[name] for name in PLACES))


@dataclass
class Storm:
    """Processes that fold and die, and what people do meanwhile."""

    trial: Trial
    times: int  # that a process dies at each place
    jobs: int = JOBS
    ended: int = 0  # sessions, in the middle of a fold
    processes: "list[subprocess.Popen[bytes]]" = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)  # jobs, each once, which were then retried
    is_pruned: bool = False

    def goes_on_to_its_end(self) -> bool:
        """A step of it; whether it is over."""
        assert self.trial.postgres
        self._keep_folding()
        self.ended += int(self.trial.postgres.sql(END_FOLDS))
        states = dict(self.trial.query(select(Job.id, Job.state)) or [])
        self._cancel_and_retry()
        if not self.is_pruned and states.get(PRUNED) == JobState.DONE:
            prune_jobs(self.trial.database, [PRUNED])
            self.is_pruned = True
        if any(state != JobState.DONE for state in states.values()) or not self.is_pruned:
            return False
        if self.cancelled and self.ended >= self.times and self._has_killed():
            return True
        self.trial.submit("--again")
        self.jobs += 1
        return False

    def end_processes(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def _has_killed(self) -> bool:
        hits = self.trial.hits()
        return all(hits[name] >= self.times for name in PLACES)

    def _cancel_and_retry(self) -> None:
        """Each job but the first, when some of it is recorded."""
        begun = exists().where(ShardEvent.job_id == Job.id, ShardEvent.event == "recorded")
        running = select(Job.id).where(Job.state == JobState.RUNNING, Job.id != PRUNED, begun)
        for (number,) in self.trial.query(running) or []:
            if number not in self.cancelled:
                with suppress(SpecError):  # it has ended meanwhile
                    cancel(self.trial.database, number)
                    retry(self.trial.database, number)
                    self.cancelled.append(number)

    def _keep_folding(self) -> None:
        deaths = ",".join(f"{name}:kill:{self.times}" for name in PLACES)
        running = [process for process in self.processes if process.poll() is None]
        while len(running) < PROCESSES:
            with self.trial.log.open("ab") as log:
                running.append(
                    subprocess.Popen(
                        [sys.executable, "-c", FOLD, self.trial.database_url],
                        env=self.trial.environment | {"KVJOBS_FAILPOINTS": deaths},
                        stdout=log,
                        stderr=log,
                    )
                )
        self.processes = running


def _check(trial: Trial, jobs: int, killed: int) -> None:
    with trial.database.reading() as connection:
        for number in range(PRUNED + 1, jobs + 1):
            trial.violations += find_contradictions(connection, number)
    fold(trial.database)
    with trial.database.reading() as connection:
        trial.expect(count_deltas(connection) == 0, "deltas are left behind a fold")
        counted = connection.execute(select(JobCounts.__table__).order_by(JobCounts.job_id)).all()
        now = connection.execute(text("SELECT * FROM current_job_counts ORDER BY job_id")).all()
    trial.expect(counted == now, f"counters: {counted}, with deltas {now}")
    trial.expect([row.job_id for row in counted] == [*range(PRUNED + 1, jobs + 1)], f"jobs: {counted}")
    for number in {PRUNED + 1, jobs}:
        trial.job_id = number
        trial.check(deaths=killed)
