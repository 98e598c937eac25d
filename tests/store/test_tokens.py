"""Tokens in the database: the secret is not there, a name is free again, a use is noted, limits hold."""

from pathlib import Path

import pytest
from sqlalchemy import select, text, update

from jobs.choices import Role
from jobs.errors import LimitReached, NotFoundError, SpecError
from jobs.store.database import Database
from jobs.store.jobs import cancel
from jobs.store.schema.clock import db_time
from jobs.store.schema.tables import Job
from jobs.store.schema.token_table import AccessToken
from jobs.store.tokens import (
    SECRET_BYTES,
    Token,
    add_token,
    all_tokens,
    digest_of,
    note_use,
    revoke_token,
    valid_tokens,
)
from tests.small_chains import KEPT, SCORED, begin


def tokens(database: Database) -> list[Token]:
    with database.reading() as connection:
        return valid_tokens(connection)


def test_a_secret_is_in_no_column_of_the_database(database: Database) -> None:
    secret = add_token(database, "ci", Role.PRODUCER, "ann@here", max_jobs=3, max_bytes=1 << 20)

    (token,) = tokens(database)
    assert (token.name, token.role, token.created_by, token.max_jobs) == ("ci", Role.PRODUCER, "ann@here", 3)
    assert (token.last_used_at, token.revoked_at, token.max_bytes) == (None, None, 1 << 20)
    assert (len(secret), secret[:4]) == (47, "kvj_")
    assert token.secret_digest == digest_of(secret)
    assert secret.startswith(token.prefix)
    assert len(secret) - len(token.prefix) > 30, "what is stored of the secret leaves most of it unknown"
    with database.reading() as connection:
        row = connection.execute(text("SELECT * FROM tokens")).one()
    assert not any(secret[10:] in str(value) or secret[10:].encode() in bytes(str(value), "utf-8") for value in row)
    assert secret[10:] not in repr(token)


def test_no_two_secrets_are_alike(database: Database) -> None:
    secrets = {add_token(database, f"t{number}", Role.VIEWER, "ann@here") for number in range(50)}

    assert len({secret[4:12] for secret in secrets}) == 50
    assert SECRET_BYTES * 8 == 256


def test_a_name_is_free_again_once_its_token_is_revoked(database: Database) -> None:
    first = add_token(database, "ci", Role.PRODUCER, "ann@here")
    with pytest.raises(SpecError, match="revoke"):
        add_token(database, "ci", Role.VIEWER, "ann@here")

    revoke_token(database, "ci")
    second = add_token(database, "ci", Role.VIEWER, "ben@here")

    assert [token.secret_digest for token in tokens(database)] == [digest_of(second)]
    with database.reading() as connection:
        old, new = all_tokens(connection)
    assert (old.secret_digest, old.revoked_at is None) == (digest_of(first), False)
    assert new.id > old.id


def test_a_token_that_is_not_there_cannot_be_revoked(database: Database) -> None:
    add_token(database, "nightly", Role.VIEWER, "ann@here")
    with pytest.raises(NotFoundError, match="mean nightly"):
        revoke_token(database, "nigthly")
    revoke_token(database, "nightly")
    with pytest.raises(NotFoundError):
        revoke_token(database, "nightly")


@pytest.mark.parametrize("name", ["", "ann@here", "a b", "-x", "é", "a" * 65, "x\n", "dashboard, from 10.0.0.1"])
def test_a_token_cannot_have_the_name_of_a_user_or_of_an_address(database: Database, name: str) -> None:
    with pytest.raises(SpecError, match="cannot name a token"):
        add_token(database, name, Role.OPERATOR, "ann@here")

    assert tokens(database) == []


def test_a_use_is_noted_at_most_once_a_minute(database: Database) -> None:
    add_token(database, "ci", Role.PRODUCER, "ann@here")
    number = tokens(database)[0].id

    def noted(seconds_ago: float) -> bool:
        with database.writing() as connection:
            connection.execute(update(AccessToken).values(last_used_at=db_time(-seconds_ago)))
            before = connection.scalar(select(AccessToken.last_used_at))
        note_use(database, number)
        return tokens(database)[0].last_used_at != before

    note_use(database, number)
    assert tokens(database)[0].last_used_at is not None
    assert not noted(50)
    assert noted(70)


def owners(database: Database) -> list[tuple[int, str | None]]:
    with database.reading() as connection:
        return [(row.id, row.owner) for row in connection.execute(select(Job.id, Job.owner).order_by(Job.id))]


def test_every_stage_of_a_chain_has_the_owner(database: Database, tmp_path: Path) -> None:
    chain = begin(database, tmp_path, SCORED, KEPT, owner="ci")

    assert owners(database) == [(job_id, "ci") for job_id in chain]


def test_an_owner_has_as_many_open_jobs_as_its_token_allows(database: Database, tmp_path: Path) -> None:
    def submit(owner: str | None) -> int:
        return begin(database, tmp_path, SCORED, owner=owner, max_open=2, again=True)[0]

    first, _second = submit("ci"), submit("ci")
    with pytest.raises(LimitReached, match=r"2 open jobs.*allows 2"):
        submit("ci")
    assert len(owners(database)) == 4, "a chain of two counts as one job, and nothing was stored of the third"
    assert submit("other") > first, "the jobs of others do not count"

    cancel(database, first)
    assert submit("ci") > first, "a job that has ended leaves room"


def test_the_same_job_again_is_no_further_job(database: Database, tmp_path: Path) -> None:
    first = begin(database, tmp_path, owner="ci", max_open=1)

    assert begin(database, tmp_path, owner="ci", max_open=1) == first
