"""Why a job or a shard waits, in sentences. No SQL.

Knows: in which order a worker takes work, and what may keep it from doing so. Does not know: how that is read.
"""

from dataclasses import dataclass

from jobs.choices import CANCELLING, PAUSED
from jobs.queues import GPU
from jobs.store.queue.leases import SUSPECT_AFTER
from jobs.store.queue.waiting import JobsAhead
from jobs.store.report.job_summary import JobSummary
from jobs.store.report.shards import ShardSummary
from jobs.store.report.waiting_work import Service
from jobs.text.formatting import counted, duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What decides whether the ready shards of a job are leased."""

    job: JobSummary
    service: Service
    ahead: JobsAhead
    next_shard: int | None  # of the job


def no_worker_sentence(service: Service, queue: str) -> str | None:
    """What to do if no live worker serves a job of this queue; None if one does."""
    if service.serving:
        return None
    if not service.live:
        return "No worker is running. To start one: kvjobs worker"
    if service.held_back:
        return (
            f"{counted(service.held_back, 'worker')} would serve the job, but none takes work now: paused or draining. "
            "To see them: kvjobs worker ls; to resume one: kvjobs worker resume WORKER"
        )
    if queue == GPU and not service.with_gpu:
        return "The job needs a GPU, and no live worker has one. To start one: kvjobs worker --device cuda:0"
    return f"No worker serves the queue {queue} now. To see what each one serves: kvjobs worker ls"


def jobs_ahead_sentence(ahead: JobsAhead) -> str:
    """`3 jobs with 600 documents are ahead of it.`"""
    verb = "is" if ahead.jobs == 1 else "are"
    return f"{counted(ahead.jobs, 'job')} with {counted(ahead.documents, 'document')} {verb} ahead of it."


def why_job_waits(around: Circumstances) -> str | None:
    """What holds back every ready shard of the job; None where nothing does."""
    job = around.job
    if job.has_ended:
        return None
    if job.state == "ingesting":
        return "The corpus is still being read; workers see the job when it is read to the end."
    if job.recorded_state == CANCELLING:
        return "The job is being cancelled: its shards are closed, not leased."
    if job.recorded_state == PAUSED:
        return f"The job is paused{job.because}. To resume it: kvjobs resume {job.job_id}"
    if no_worker := no_worker_sentence(around.service, job.queue):
        return no_worker
    return jobs_ahead_sentence(around.ahead) if around.ahead.jobs else None


def why_shard_waits(shard: ShardSummary, around: Circumstances) -> str:
    """Why a ready shard is not leased, and what will be different when it is."""
    return " ".join(part for part in (why_job_waits(around) or _turn_in_job(shard, around), _crashes(shard)) if part)


def who_has_it(shard: ShardSummary) -> str:
    """Who computes a leased shard, or what becomes of it where nobody does."""
    lane = f"lane {shard.lane} of worker {shard.worker_id}" + (f" on {shard.host}" if shard.host else "")
    left = shard.lease_left_s or 0.0
    if left < 0:
        return f"The lease of {lane} ran out {duration(-left)} ago; the shard is taken back and leased again."
    doing = f"computes {counted(shard.in_flight, 'document')}" if shard.in_flight else "holds it"
    return f"{lane[0].upper()}{lane[1:]} {doing}; its lease lasts {duration(left)} more unless it is renewed."


def _turn_in_job(shard: ShardSummary, around: Circumstances) -> str:
    """Whether it is the next shard of its job, and whether a lane is free for it."""
    service = around.service
    if shard.shard_id != around.next_shard:
        busy = f"{service.busy_lanes} of {counted(service.lanes, 'lane')} in use"
        return f"Shard {around.next_shard} of this job comes first; {busy}."
    if service.free_lanes:
        return "It is next, and a lane is free: a worker takes it within seconds."
    lanes = "the only lane that serves" if service.lanes == 1 else f"all {service.lanes} lanes that serve"
    return f"It is next; {lanes} the job {'is' if service.lanes == 1 else 'are'} busy."


def _crashes(shard: ShardSummary) -> str:
    if not shard.crashes:
        return ""
    leases = "lease was" if shard.crashes == 1 else f"{shard.crashes} leases were"
    is_suspect = shard.crashes >= SUSPECT_AFTER
    what_follows = ", so the next one runs its first batch in a disposable process" if is_suspect else ""
    return f"Its last {leases} taken back before a batch was recorded{what_follows}."
