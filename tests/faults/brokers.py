"""Faults of the broker: hints are lost, late, or sent five times. No hint carries data, so every job still ends."""

import time

from jobs.queues import CPU
from tests.faults.proxy import Proxy
from tests.faults.trial import Trial

MAX_GAP_S = 60.0  # between two recorded batches while the broker does not answer


def killed(trial: Trial) -> None:
    """Redis is killed, loses everything, and is started again a moment later."""
    assert trial.redis
    trial.submit()
    trial.keep_workers(2, KVJOBS_LANES="1")
    for _ in range(5 if trial.long else 2):
        trial.until_num_ended(min(trial.num_ended() + 20, trial.corpus.documents))
        trial.redis.kill()
        time.sleep(trial.rng.uniform(0.0, 20.0 if trial.long else 2.0))
        trial.redis.start()
        trial.fault_ended()
    _ends_by_itself(trial)


def flushed(trial: Trial) -> None:
    """FLUSHALL: every hint and every key of Celery is gone."""
    assert trial.redis
    trial.submit()
    trial.keep_workers(2, KVJOBS_LANES="1")
    for _ in range(10 if trial.long else 4):
        trial.until_num_ended(min(trial.num_ended() + 15, trial.corpus.documents))
        trial.redis.flush()
        trial.fault_ended()
    _ends_by_itself(trial)


def absent(trial: Trial) -> None:
    """Redis is not running from the start to the end."""
    assert trial.redis
    trial.redis.stop()
    trial.submit()
    trial.fault_ended()
    trial.keep_workers(2, KVJOBS_LANES="1")
    _ends_by_itself(trial)


def half_open(trial: Trial) -> None:
    """Redis accepts every byte and does not answer, for a while."""
    assert trial.redis
    with Proxy(trial.redis.port) as proxy:
        trial.environment["KVJOBS_BROKER"] = f"redis://127.0.0.1:{proxy.port}/0"
        trial.submit()
        trial.keep_workers(2, KVJOBS_LANES="1")
        trial.until_num_ended(10)
        proxy.swallow()
        trial.fault_ended()  # work must go on meanwhile
        time.sleep(120 if trial.long else 12)
        proxy.heal()
        trial.fault_ended()
        _ends_by_itself(trial)
        trial.end()


def hints_doubled_and_late(trial: Trial) -> None:
    """Every hint five times, and once more when the work is done: no document is done twice."""
    assert trial.redis
    trial.submit()
    hints = 5 * max(1, trial.corpus.documents // 60)
    _send_hints(trial.redis.url, hints)
    trial.keep_workers(2, KVJOBS_LANES="1")
    trial.until_num_ended(10)
    _send_hints(trial.redis.url, hints)
    trial.until_over()
    done = trial.num_ended()
    _send_hints(trial.redis.url, hints)
    time.sleep(3.0)
    trial.expect(trial.num_ended() == done, "late hints changed the counters")
    trial.notes.append(f"{3 * hints} extra hints")
    trial.check(deaths=0)


def _send_hints(url: str, number: int) -> None:
    """Send hints as the dispatcher does, but `number` of them."""
    from jobs.dispatch import broker  # imported here because it needs Celery

    broker.send_hints(broker.make_app(url), CPU, number)


def _ends_by_itself(trial: Trial) -> None:
    trial.until_over()
    trial.check(deaths=0)
    gap = trial.longest_gap_s
    trial.expect(gap <= MAX_GAP_S, f"nothing was recorded for {gap:.0f} s, though only the broker had failed")
