"""The upgrade to 0017: a job of an older version goes on, alone; a chain can be submitted beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from jobs.outcome import Failed
from jobs.store.database import Database
from jobs.store.queue.deltas import fold
from jobs.store.schema.migrate import differences, downgrade, upgrade
from tests.rows import insert_waiting_job, translated
from tests.small_chains import KEPT, SCORED, begin, finish_all
from tests.store.leasing import contradictory, counts, take, write
from tests.store.schema.older_database import MadeOnce, copied, made_of_each_kind

BEFORE_CHAINS = "0016"


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeOnce]:
    """Databases of version 0016 with two results, a failure, and a document that waits."""
    with made_of_each_kind(_make_older, tmp_path_factory.mktemp("older")) as made:
        yield made


@pytest.fixture
def database(request: pytest.FixtureRequest, older: MadeOnce, tmp_path: Path) -> Iterator[Database]:
    with copied(older(request.param), tmp_path) as database:
        yield database


def _make_older(database: Database) -> None:
    upgrade(database.engine)
    insert_waiting_job(database, documents=4, per_shard=3)
    write(database, take(database), outcomes=[translated("a"), translated("b"), Failed("engine-error", "it broke")])
    fold(database)
    downgrade(database.engine, BEFORE_CHAINS)


def test_a_job_of_an_older_version_ends_and_a_chain_is_processed_beside_it(database: Database, tmp_path: Path) -> None:
    upgrade(database.engine)
    chain = begin(database, tmp_path, SCORED, KEPT)
    finish_all(database)

    assert differences(database.engine) == []
    assert [contradictory(database, job) for job in (1, *chain)] == [[]] * 4
    assert [counts(database, job).succeeded for job in (1, *chain)] == [3, 6, 6, 3]


def test_an_older_version_gets_its_tables_back(database: Database) -> None:
    upgrade(database.engine)

    downgrade(database.engine, BEFORE_CHAINS)

    with database.reading() as connection:
        job = connection.execute(text("SELECT * FROM jobs")).mappings().one()
        assert not job.keys() & {"chain", "stage", "reads"}
        assert connection.execute(text("SELECT succeeded, failed FROM job_counts")).one() == (2, 1)
