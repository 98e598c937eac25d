"""Faults in which the database says nothing, or something that only sounds final: no worker may give up.

A worker that is started again by whoever looks after it would hide that, so each of these asks whether the processes
at the end are those of the start.
"""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.faults.proxy import Proxy
from tests.faults.servers import PostgresServer
from tests.faults.trial import Trial
from tests.faults.wire import HERE, Wire

HIDING = Path(__file__).with_name("hiding")  # a sitecustomize that hides other processes as hidepid does
# root itself sees what is hidden, unless it is in another group and may not trace processes.
HIDDEN = "mount -t proc -o hidepid=2 proc /proc"
BLIND = 'exec setpriv --regid=65534 --clear-groups --bounding-set=-sys_ptrace "$@"'
WITHIN_S = LEASE_S = 60.0
SLOWLY = "after-compute:sleep=0.4:1000000"
UNSEEING = ("unshare", "--mount", "sh", "-c", f"{HIDDEN} && {BLIND}", "sh")


def packets_dropped(trial: Trial) -> None:
    """The network between the workers and PostgreSQL loses every packet, in both directions."""
    assert trial.postgres
    with Wire() as wire:
        trial.postgres.listen_on(HERE)
        trial.submit()
        trial.prefix = wire.prefix
        trial.environment["KVJOBS_DATABASE"] = trial.postgres.url_at(trial.postgres.port, HERE)
        _outlast(trial, wire.lose_everything, wire.heal, seconds=150.0)
        trial.end()


def connections_forgotten(trial: Trial) -> None:
    """What stands between them takes every byte and passes none on; afterwards it knows only new connections."""
    assert trial.postgres
    with Proxy(trial.postgres.port) as proxy:
        trial.submit()
        trial.environment["KVJOBS_DATABASE"] = trial.postgres.url_at(proxy.port)
        _outlast(trial, proxy.forget, proxy.heal, seconds=150.0)
        trial.end()


def frozen(trial: Trial) -> None:
    """SIGSTOP to every process of PostgreSQL: connections are accepted, questions are taken, nothing is answered."""
    assert trial.postgres
    trial.submit()
    _outlast(trial, trial.postgres.freeze, trial.postgres.thaw, seconds=140.0)


def read_only(trial: Trial) -> None:
    """PostgreSQL takes no writes by default, as in the middle of a failover."""
    assert trial.postgres
    trial.submit()
    _outlast(trial, *_without_writes(trial.postgres), seconds=140.0)


def failed_over(trial: Trial) -> None:
    """What answers is a standby, which is promoted only later."""
    assert trial.postgres
    trial.submit()
    _outlast(trial, trial.postgres.become_standby, trial.postgres.promote, seconds=140.0)


def tls_cut(trial: Trial) -> None:
    """The server agrees to TLS, and the connection ends in the middle of the handshake."""
    assert trial.postgres
    postgres = trial.postgres
    postgres.offer_tls()
    with Proxy(postgres.port) as proxy:
        trial.submit()
        trial.environment["KVJOBS_DATABASE"] = postgres.url_at(proxy.port) + "?sslmode=require"
        _outlast(trial, proxy.cut_handshakes, proxy.heal, seconds=140.0)
        trial.end()


def hidden_process(trial: Trial) -> None:
    """A worker sees no process but its own (hidepid): it takes nothing from another on the same machine."""
    trial.submit()
    trial.crew(1)
    if subprocess.run([*UNSEEING, "true"], capture_output=True, check=False).returncode == 0:
        trial.prefix = UNSEEING
        trial.worker()
        trial.notes.append("hidepid")
    else:
        trial.worker(PYTHONPATH=trial.python_path(HIDING))
        trial.notes.append("a stand-in for hidepid: no namespace can be made here")
    trial.prefix = ()
    trial.until_over()
    trial.expect(not (taken := trial.events("lost", "expired")), f"shards were taken from a live worker: {taken}")
    listed = trial.kvjobs("worker", "ls", "-q").stdout.split()
    trial.expect(len(listed) == 2, f"{len(listed)} workers are in the roster, not 2")
    trial.judge(deaths=0)


def one_after_the_other(trial: Trial) -> None:
    """Frozen, read-only, every connection forgotten, and no handshake that ends: each for longer than a lease."""
    assert trial.postgres
    postgres = trial.postgres
    postgres.offer_tls()
    with Proxy(postgres.port) as proxy:
        trial.submit()
        trial.environment["KVJOBS_DATABASE"] = postgres.url_at(proxy.port) + "?sslmode=require"
        faults = [
            (postgres.freeze, postgres.thaw),
            _without_writes(postgres),
            (proxy.forget, proxy.heal),
            (proxy.cut_handshakes, proxy.heal),
        ]
        crew = _start_crew(trial, 1)
        for begin, end in faults:
            _disturb(trial, begin, end, seconds=6.0)
        _see_it_through(trial, crew)
        trial.end()


def _without_writes(postgres: PostgresServer) -> tuple[Callable[[], None], Callable[[], None]]:
    """What begins it and what ends it."""

    def begin() -> None:
        postgres.set("default_transaction_read_only", "on")
        postgres.terminate_backends()

    return begin, lambda: postgres.set("default_transaction_read_only", "off")


def _outlast(trial: Trial, begin: Callable[[], None], end: Callable[[], None], seconds: float) -> None:
    """One fault of so many seconds with the leases that workers have by default; in the short form a short one."""
    crew = _start_crew(trial, 2)
    _disturb(trial, begin, end, seconds if trial.long else 8.0)
    _see_it_through(trial, crew)


def _start_crew(trial: Trial, number: int) -> list[int]:
    """So many workers, slow enough that the job outlasts the faults; their process numbers."""
    lease_s = LEASE_S if trial.long else 4.0
    trial.environment |= {"KVJOBS_LEASE_S": f"{lease_s:g}", "KVJOBS_HEARTBEAT_S": f"{lease_s / 4:g}"}
    trial.crew(number, KVJOBS_LANES="1", KVJOBS_FAILPOINTS=SLOWLY)
    return [hand.pid for hand in trial.tend()]


def _disturb(trial: Trial, begin: Callable[[], None], end: Callable[[], None], seconds: float) -> None:
    """Once both are at work."""
    trial.until_counted(trial.counted() + 1)
    begin()
    time.sleep(seconds)
    end()
    trial.healed()
    trial.deaths += 2  # whoever could not prolong its lease may have lost it


def _see_it_through(trial: Trial, crew: list[int]) -> None:
    """To the end of the job: by the same workers, which went on soon."""
    faults = trial.faults
    trial.until_over(timeout=600.0)
    trial.judge()
    trial.expect([hand.pid for hand in trial.tend()] == crew, f"a worker gave up:\n{trial.last_words()}")
    trial.expect(len(trial.recoveries) == faults, "a fault came too late: give more documents")
    slowest = max(trial.recoveries, default=0.0)
    trial.expect(slowest <= WITHIN_S, f"it took {slowest:.1f} s to go on")
    trial.notes.append(f"{len(trial.events('expired', 'lost'))} leases lost")
