"""The upgrade to 0031 makes options of the markup that documents have, and the downgrade the reverse."""

from sqlalchemy import text

from jobs.store.database import Database
from jobs.store.queue.deltas import fold
from jobs.store.schema.migrate import differences, downgrade, upgrade
from tests.databases import ON_BOTH
from tests.rows import insert_waiting_job

BEFORE = "0030"
OWN = ('{"markup":"html"}', '{"max_chars":5}', None, '{"markup":"md","max_chars":7}')


@ON_BOTH
def test_the_markup_of_a_document_becomes_an_option_of_its_own(database: Database) -> None:
    insert_waiting_job(database, documents=len(OWN), per_shard=4)
    with database.writing() as connection:
        for position, own in enumerate(OWN):
            connection.execute(
                text("UPDATE documents SET own_options = :own WHERE position = :at"), {"own": own, "at": position}
            )

    fold(database)
    downgrade(database.engine, BEFORE)

    assert column(database, "markup") == ["html", None, None, "md"]
    upgrade(database.engine)
    assert column(database, "own_options") == ['{"markup":"html"}', None, None, '{"markup":"md"}']
    assert differences(database.engine) == []


def column(database: Database, name: str) -> list[str | None]:
    with database.reading() as connection:
        return list(connection.execute(text(f"SELECT {name} FROM documents ORDER BY position")).scalars())
