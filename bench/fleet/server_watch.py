"""What the server does during a window: processor time, transactions, log, and what its sessions wait for."""

import time
from collections import Counter
from dataclasses import dataclass, field

import psycopg

from bench.fleet.load_process import Window
from bench.fleet.postgresql_server import PostgresqlServer
from bench.harness.machine import busy_s

SAMPLE_EVERY_S = 0.1
TOTALS = """
SELECT xact_commit + xact_rollback, deadlocks, pg_current_wal_lsn() - '0/0'::pg_lsn, clock_timestamp()
FROM pg_stat_database WHERE datname = %s
"""
# A session that computes waits for nothing. `Client` waits in a transaction are for the worker's next statement.
WAITS = """
SELECT CASE WHEN state = 'active' THEN coalesce(wait_event_type || ':' || wait_event, 'processor')
            ELSE 'worker, in a transaction' END, count(*)
FROM pg_stat_activity
WHERE datname = %s AND pid <> pg_backend_pid() AND (state = 'active' OR state LIKE 'idle in transaction%%')
GROUP BY 1
"""


@dataclass(slots=True)
class ServerUse:
    """What a window cost the server."""

    cpu_s: float = 0.0
    machine_s: float = 0.0  # processor time of everything that ran on the machine
    transactions: int = 0
    deadlocks: int = 0
    log_bytes: int = 0
    connections: int = 0
    memory: int = 0  # bytes of all its processes
    waits: Counter[str] = field(default_factory=Counter)  # sessions, on average, by what they wait for


def watch(server: PostgresqlServer, name: str, window: Window) -> ServerUse:
    """Watch the database of this name until the window ends."""
    use, samples = ServerUse(), 0
    url = server.url.replace("+psycopg", "")
    with psycopg.connect(url, autocommit=True) as connection:
        _sleep_until(window.begin)
        before, cpu_s, machine_s = connection.execute(TOTALS, (name,)).fetchone(), server.cpu_s(), busy_s()
        number = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = %s", (name,)).fetchone()
        while time.monotonic() < window.end:
            use.waits.update(dict(connection.execute(WAITS, (name,)).fetchall()))
            samples += 1
            time.sleep(SAMPLE_EVERY_S)
        use.cpu_s, use.machine_s = server.cpu_s() - cpu_s, busy_s() - machine_s
        after = connection.execute(TOTALS, (name,)).fetchone()
    assert before is not None
    assert after is not None
    assert number is not None
    use.transactions, use.deadlocks = after[0] - before[0], after[1] - before[1]
    use.log_bytes, use.connections, use.memory = int(after[2] - before[2]), number[0], server.memory()
    use.waits = Counter({what: round(total / max(1, samples), 2) for what, total in use.waits.items()})  # type: ignore[misc]  # means, not counts
    return use


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
