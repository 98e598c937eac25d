"""The loop of a lane: lease a shard, process and record it, until no shard is ready."""

import logging
import time

from jobs.errors import ModelError, NotFoundError, SpecError, StageDied, StaleLease, Stopped, StoreError, ValueRefused
from jobs.outcome import StepTiming
from jobs.queues import Queues
from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.text.log_lines import log_fields
from worker.installation import Installation, InstallationBroken
from worker.isolation.suspects import OpenSandbox
from worker.lane import Lane
from worker.leased_shard import LeasedShard
from worker.process.lease_keeper import LeaseKeeper
from worker.providers.protocol import ProviderFailure

log = logging.getLogger(__name__)

INSTALLATION = Installation()  # of this process


def drain(
    database: Database,
    lane: Lane,
    keeper: LeaseKeeper,
    queues: Queues = Queues(),  # noqa: B008 - frozen
    first_job: int | None = None,
    open_sandbox: OpenSandbox | None = None,
    installation: Installation = INSTALLATION,
) -> None:
    """Process shards until none is ready or the worker stops. Without `open_sandbox`, a suspect batch is processed like
    any other. Raises StoreError where the database is unreachable or refuses a write, InstallationBroken where a job is
    to be tried again in a moment."""
    while keeper.takes_work():
        started = time.perf_counter()
        keeper.wakeup.begin_look()
        work = leases.lease(
            database,
            keeper.worker_id,
            lane.number,
            keeper.lease_s,
            queues=queues,
            warm=lane.warm,
            first_job=first_job,
            batches_at_once=lane.batches_at_once,
        )
        if work is None:
            return
        keeper.wakeup.found_work()
        with log_fields(job=work.job_id, shard=work.shard_id, lane=lane.number):
            lane.latest_revision = work.spec.model_revision
            keeper.keep(work)
            keeper.work_log.log_begin(work)
            leasing = StepTiming("queue", 0, 0, 0, 0, time.perf_counter() - started)
            how = "given back"
            try:
                how = _finish(LeasedShard(database, lane, keeper, work, open_sandbox), leasing, installation)
            finally:
                keeper.let_go(work)
                keeper.work_log.log_end(work, how)


def _finish(shard: LeasedShard, leasing: StepTiming, installation: Installation) -> str:
    """Finish a shard, or give its lease back; how the lease ended."""
    try:
        shard.finish(leasing)
    except StaleLease as error:
        log.warning("%s", error)
        return "lost to another worker"
    except Stopped:
        shard.give_back()
    except StageDied as error:
        log.error("%s; its batch is computed again", error)
        shard.give_back(crashed=True)
    except ValueRefused:
        raise  # keep the lease, so that its end counts as a crash: another worker would fare no better
    except StoreError:
        # Give the shard back, which counts as no crash: a lease that runs out counts as one.
        shard.give_back()
        raise
    except ImportError:  # a package is being replaced: no document is to blame, and a new process may find it
        shard.give_back()
        raise
    except (ModelError, NotFoundError, SpecError, ProviderFailure) as error:
        try:
            broken = installation.check(error)
        except InstallationBroken:
            shard.give_back()
            raise
        # Every document would fail for the same reason: the job waits for a person before it loses them one by one.
        reason = broken or str(error)
        log.error("job %d is paused: %s", shard.work.job_id, reason)
        shard.pause_job(reason)
    else:
        return "done"
    return "given back"
