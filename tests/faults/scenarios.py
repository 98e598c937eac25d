"""The table of fault scenarios: their backends, and how often each is tried in the short and the long form."""

import contextlib
import enum
import importlib.util
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults import (
    bad_documents,
    brokers,
    chains,
    commands,
    databases,
    folding,
    grand,
    identity,
    model_files,
    processes_killed,
    provider_servers,
    silences,
    submitting,
)
from tests.faults.corpus import Corpus
from tests.faults.servers import PostgresServer, RedisServer, missing
from tests.faults.trial import Trial, TrialFailed


class Backend(enum.StrEnum):
    """The database of the jobs, and whether there is a broker."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"  # no broker: workers poll the database
    FLEET = "fleet"  # PostgreSQL and Redis


SQLITE, POSTGRESQL, FLEET = Backend
EVERYWHERE = tuple(Backend)
NO_BROKER = (SQLITE, POSTGRESQL)
ON_POSTGRESQL = (POSTGRESQL, FLEET)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of fault, and where and how often it is tried."""

    name: str
    backends: tuple[Backend, ...]
    run: Callable[[Trial], None]
    short: tuple[Backend, ...]  # backends of the short form; none if other tests in CI cover the fault
    tries: int = 1  # in the short form
    long_tries: int = 5


SCENARIOS = (
    Scenario("kill-9", EVERYWHERE, processes_killed.killed_at_random, short=(FLEET,), long_tries=10),
    Scenario("pivot-killed", EVERYWHERE, processes_killed.killed_between_two_models, short=()),
    Scenario("failpoints", EVERYWHERE, processes_killed.failpoints, short=(POSTGRESQL,), long_tries=2),
    Scenario("chain-killed", EVERYWHERE, chains.killed_in_each_stage, short=(SQLITE,), long_tries=3),
    Scenario("folding-killed", ON_POSTGRESQL, folding.killed_at_each_step, short=(POSTGRESQL,), long_tries=3),
    Scenario("frozen-past-lease", EVERYWHERE, processes_killed.frozen_past_its_lease, short=(POSTGRESQL,)),
    Scenario("frozen-with-lock", (SQLITE,), processes_killed.frozen_with_the_lock, short=(), long_tries=3),
    Scenario("frozen-across-prune", EVERYWHERE, identity.frozen_across_prune, short=(), long_tries=2),
    Scenario("frozen-across-restore", EVERYWHERE, identity.frozen_across_restore, short=(POSTGRESQL,), long_tries=2),
    Scenario("frozen-at-random", EVERYWHERE, processes_killed.frozen_at_random, short=()),
    Scenario("wrong-clock", EVERYWHERE, processes_killed.clock_is_wrong, short=(), long_tries=2),
    Scenario("many-reapers", EVERYWHERE, processes_killed.many_reapers, short=()),
    Scenario("cancel", EVERYWHERE, commands.cancelled_under_load, short=()),
    Scenario("cancel-killed", EVERYWHERE, commands.cancel_killed, short=(), long_tries=2),
    Scenario("pause-resume", EVERYWHERE, commands.paused_and_resumed, short=()),
    Scenario("rolling-restarts", EVERYWHERE, commands.restarted_one_by_one, short=()),
    Scenario("submit-killed", NO_BROKER, submitting.killed, short=(SQLITE,)),
    Scenario("submit-twice", NO_BROKER, submitting.twice_at_once, short=()),
    Scenario("corpus-changed", NO_BROKER, submitting.changed_file, short=(), long_tries=2),
    Scenario("bad-lines", EVERYWHERE, bad_documents.bad_lines, short=(), long_tries=2),
    Scenario("poison", EVERYWHERE, bad_documents.poison, short=(), long_tries=2),
    Scenario("model-changed", EVERYWHERE, model_files.overwritten, short=(SQLITE,), long_tries=2),
    Scenario("provider-killed", EVERYWHERE, provider_servers.killed_with_its_workers, short=(SQLITE,), long_tries=3),
    Scenario("sqlite-locked", (SQLITE,), databases.locked, short=(), long_tries=2),
    Scenario("sqlite-many-lanes", (SQLITE,), databases.locked_under_many_lanes, short=(), long_tries=1),
    Scenario("disk-full", (SQLITE,), databases.disk_full, short=()),
    Scenario("postgresql-restarted", ON_POSTGRESQL, databases.restarted, short=(FLEET,)),
    Scenario("postgresql-away", ON_POSTGRESQL, databases.away_past_the_lease, short=(), long_tries=2),
    Scenario("backends-terminated", ON_POSTGRESQL, databases.backends_terminated, short=()),
    Scenario("commit-reply-cut", ON_POSTGRESQL, databases.reply_cut_after_commit, short=(POSTGRESQL,)),
    Scenario("pgbouncer-killed", ON_POSTGRESQL, databases.pooler_killed, short=(POSTGRESQL,), long_tries=3),
    Scenario("silences", ON_POSTGRESQL, silences.one_after_the_other, short=(POSTGRESQL,), long_tries=1),
    Scenario("packets-dropped", ON_POSTGRESQL, silences.packets_dropped, short=(), long_tries=1),
    Scenario("connections-forgotten", ON_POSTGRESQL, silences.connections_forgotten, short=(), long_tries=1),
    Scenario("postgresql-frozen", ON_POSTGRESQL, silences.frozen, short=(), long_tries=1),
    Scenario("postgresql-read-only", ON_POSTGRESQL, silences.read_only, short=(), long_tries=1),
    Scenario("postgresql-failover", ON_POSTGRESQL, silences.failed_over, short=(), long_tries=1),
    Scenario("tls-cut", ON_POSTGRESQL, silences.tls_cut, short=(), long_tries=1),
    Scenario("hidden-process", ON_POSTGRESQL, silences.hidden_process, short=(), long_tries=2),
    Scenario("redis-killed", (FLEET,), brokers.killed, short=()),
    Scenario("redis-flushed", (FLEET,), brokers.flushed, short=()),
    Scenario("redis-absent", (FLEET,), brokers.absent, short=(), long_tries=2),
    Scenario("redis-half-open", (FLEET,), brokers.half_open, short=(FLEET,), long_tries=2),
    Scenario("hints-doubled", (FLEET,), brokers.hints_doubled_and_late, short=(), long_tries=2),
    Scenario("grand", ON_POSTGRESQL, grand.everything_at_once, short=(FLEET,), long_tries=1),
)


@dataclass(frozen=True, slots=True)
class TrialResult:
    """One try of one scenario, and its result."""

    scenario: str
    backend: str
    seed: int
    violations: list[str]
    recoveries_s: list[float] = field(default_factory=list)  # from a fault (or its end) to the next recorded batch
    longest_gap_s: float = 0.0
    redone: int = 0
    batch: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.violations


def run_scenario(
    scenario: Scenario, backend: Backend, folder: Path, *, seed: int, documents: int, long: bool = False
) -> TrialResult:
    """Try a scenario once in an empty folder."""
    started = time.monotonic()
    with _servers(backend) as (postgres, redis):
        folder.mkdir(parents=True)
        trial = Trial(
            folder, Corpus.write(folder / "corpus.jsonl", documents), random.Random(seed), long, postgres, redis
        )
        try:
            trial.make_tables()
            scenario.run(trial)
        except TrialFailed as error:
            trial.violations.append(str(error))
        finally:
            trial.end()
    return TrialResult(
        scenario=scenario.name,
        backend=backend,
        seed=seed,
        violations=trial.violations,
        recoveries_s=trial.recoveries,
        longest_gap_s=trial.longest_gap_s,
        redone=trial.redone,
        batch=trial.batch,
        seconds=time.monotonic() - started,
        notes=trial.notes,
    )


@contextlib.contextmanager
def _servers(backend: Backend) -> Iterator[tuple[PostgresServer | None, RedisServer | None]]:
    if backend == Backend.FLEET and importlib.util.find_spec("jobs.dispatch.broker") is None:
        missing("there is no jobs.dispatch.broker here")
    with contextlib.ExitStack() as servers:
        postgres = servers.enter_context(PostgresServer()) if backend != Backend.SQLITE else None
        redis = servers.enter_context(RedisServer()) if backend == Backend.FLEET else None
        yield postgres, redis
