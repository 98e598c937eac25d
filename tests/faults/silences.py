"""Faults in which the database does not answer, or answers with an error that looks permanent: no worker may give up.

A restart would hide that a worker gave up, so each scenario checks that the processes at the end are those of
the start.
"""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.faults.corpus import Corpus
from tests.faults.network_link import HERE, NetworkLink
from tests.faults.proxy import Proxy
from tests.faults.servers import PostgresServer
from tests.faults.trial import Trial

HIDING = Path(__file__).with_name("hiding")  # a sitecustomize that hides other processes as hidepid does
# root sees hidden processes, unless it is in another group and lacks CAP_SYS_PTRACE.
MOUNT_HIDEPID = "mount -t proc -o hidepid=2 proc /proc"
AS_OTHER_GROUP = 'exec setpriv --regid=65534 --clear-groups --bounding-set=-sys_ptrace "$@"'
WITHIN_S = LEASE_S = 60.0
SLOWLY = "after-compute:sleep=0.4:1000000"
WITH_HIDEPID = ("unshare", "--mount", "sh", "-c", f"{MOUNT_HIDEPID} && {AS_OTHER_GROUP}", "sh")


def packets_dropped(trial: Trial) -> None:
    """The network between the workers and PostgreSQL loses every packet, in both directions."""
    assert trial.postgres
    with NetworkLink() as link:
        trial.postgres.listen_on(HERE)
        trial.submit()
        trial.prefix = link.prefix
        trial.environment["KVJOBS_DATABASE"] = trial.postgres.url_at(trial.postgres.port, HERE)
        _outlast(trial, link.drop_packets, link.heal, seconds=150.0)
        trial.end()


def connections_forgotten(trial: Trial) -> None:
    """A proxy to PostgreSQL accepts every byte and forwards none; afterwards it forwards only new connections."""
    assert trial.postgres
    with Proxy(trial.postgres.port) as proxy:
        trial.submit()
        trial.environment["KVJOBS_DATABASE"] = trial.postgres.url_at(proxy.port)
        _outlast(trial, proxy.forget, proxy.heal, seconds=150.0)
        trial.end()


def frozen(trial: Trial) -> None:
    """SIGSTOP to every process of PostgreSQL: the kernel accepts connections and queries, nothing is answered."""
    assert trial.postgres
    trial.submit()
    _outlast(trial, trial.postgres.freeze, trial.postgres.thaw, seconds=140.0)


def read_only(trial: Trial) -> None:
    """PostgreSQL refuses writes by default, as in the middle of a failover."""
    assert trial.postgres
    trial.submit()
    _outlast(trial, *_without_writes(trial.postgres), seconds=140.0)


def failed_over(trial: Trial) -> None:
    """The server that answers is a standby, which is promoted later."""
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
    """A worker can see only its own process (hidepid): it takes no shard from another worker of the same machine."""
    trial.submit()
    trial.keep_workers(1)
    if subprocess.run([*WITH_HIDEPID, "true"], capture_output=True, check=False).returncode == 0:
        trial.prefix = WITH_HIDEPID
        trial.worker()
        trial.notes.append("hidepid")
    else:
        trial.worker(PYTHONPATH=trial.python_path(HIDING))
        trial.notes.append("a stand-in for hidepid: no namespace can be made here")
    trial.prefix = ()
    trial.until_over()
    trial.expect(not (taken := trial.events("lost", "expired")), f"shards were taken from a live worker: {taken}")
    listed = trial.kvjobs("worker", "ls", "-q").stdout.split()
    trial.expect(len(listed) == 2, f"{len(listed)} workers are listed, not 2")
    trial.check(deaths=0)


def one_after_the_other(trial: Trial) -> None:
    """Frozen, read-only, every connection forgotten, every handshake cut: each for longer than a lease."""
    assert trial.postgres
    postgres = trial.postgres
    postgres.offer_tls()
    # One worker computes whole shards: each fault needs a batch before it and one behind it.
    trial.corpus = Corpus.write(trial.corpus.path, 2 * trial.corpus.documents)
    with Proxy(postgres.port) as proxy:
        trial.submit()
        trial.environment["KVJOBS_DATABASE"] = postgres.url_at(proxy.port) + "?sslmode=require"
        faults = [
            (postgres.freeze, postgres.thaw),
            _without_writes(postgres),
            (proxy.forget, proxy.heal),
            (proxy.cut_handshakes, proxy.heal),
        ]
        pids = _start_workers(trial, 1)
        for begin, end in faults:
            _disturb(trial, begin, end, seconds=6.0)
        _check_recovery(trial, pids)
        trial.end()


def _without_writes(postgres: PostgresServer) -> tuple[Callable[[], None], Callable[[], None]]:
    """Functions that make the server read-only and writable again."""

    def begin() -> None:
        postgres.set("default_transaction_read_only", "on")
        postgres.terminate_backends()

    return begin, lambda: postgres.set("default_transaction_read_only", "off")


def _outlast(trial: Trial, begin: Callable[[], None], end: Callable[[], None], seconds: float) -> None:
    """One fault that lasts `seconds` with the default lease; in the short form 8 s with a short lease."""
    pids = _start_workers(trial, 2)
    _disturb(trial, begin, end, seconds if trial.long else 8.0)
    _check_recovery(trial, pids)


def _start_workers(trial: Trial, number: int) -> list[int]:
    """Start this number of workers, slowed down so that the job outlasts the faults; returns their process ids."""
    lease_s = LEASE_S if trial.long else 4.0
    trial.environment |= {"KVJOBS_LEASE_S": f"{lease_s:g}", "KVJOBS_HEARTBEAT_S": f"{lease_s / 4:g}"}
    trial.keep_workers(number, KVJOBS_LANES="1", KVJOBS_FAILPOINTS=SLOWLY)
    return [worker.pid for worker in trial.restart_ended()]


def _disturb(trial: Trial, begin: Callable[[], None], end: Callable[[], None], seconds: float) -> None:
    """Wait for the next recorded batch, then apply the fault for this number of seconds."""
    trial.until_num_ended(trial.num_ended() + 1)
    begin()
    time.sleep(seconds)
    end()
    trial.fault_ended()
    trial.deaths += 2  # each worker may have lost its leases


def _check_recovery(trial: Trial, pids: list[int]) -> None:
    """Check that the same workers continued within `WITHIN_S` and finished the job."""
    faults = trial.faults
    trial.until_over(timeout=600.0)
    trial.check()
    trial.expect([worker.pid for worker in trial.restart_ended()] == pids, f"a worker gave up:\n{trial.log_tail()}")
    trial.expect(len(trial.recoveries) == faults, "a fault came too late: give more documents")
    slowest = max(trial.recoveries, default=0.0)
    trial.expect(slowest <= WITHIN_S, f"it took {slowest:.1f} s to go on")
    trial.notes.append(f"{len(trial.events('expired', 'lost'))} leases lost")
