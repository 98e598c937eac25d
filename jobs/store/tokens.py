"""Tokens of the dashboard: added, listed, revoked.

A secret is 256 random bits. Nobody finds such a number by trying, however fast, so its sha256 protects it as well as a
slow hash protects a password, and can be computed for each request. (Two digests that share their first bytes tell
nothing of the secrets, so they may be looked up in a table and compared as usual.)
"""

import hashlib
import re
import secrets
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, or_, select, update

from jobs.choices import Role
from jobs.errors import NotFoundError, SpecError, meant
from jobs.store.connection.dialect import insert_or_ignore
from jobs.store.database import Database
from jobs.store.schema.clock import db_time
from jobs.store.schema.token_table import AccessToken

BEGINNING = "kvj_"  # of each secret, by which programs that look for secrets in files recognise one
SECRET_BYTES = 32
PREFIX_LENGTH = len(BEGINNING) + 6  # characters of the secret that are stored: 36 of its 256 bits
USE_NOTED_EVERY_S = 60.0
# No @ and no space: the owner of a job is a name of this form, or one of user@host, or a description of a visitor.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token; the columns are described in `AccessToken`."""

    id: int
    name: str
    role: Role
    secret_digest: bytes = field(repr=False)
    prefix: str
    created_at: datetime
    created_by: str
    last_used_at: datetime | None
    revoked_at: datetime | None
    max_jobs: int | None
    max_bytes: int | None


def add_token(
    database: Database,
    name: str,
    role: Role,
    created_by: str,
    *,
    max_jobs: int | None = None,
    max_bytes: int | None = None,
) -> str:
    """Add a token; returns its secret, which is stored nowhere. Raises SpecError where a valid token has the name, or
    the name is none."""
    if not NAME.fullmatch(name):
        raise SpecError(
            f"{name!r} cannot name a token: take letters, digits, '.', '_' and '-', at most 64 of them, the first a "
            "letter or a digit"
        )
    secret = BEGINNING + secrets.token_urlsafe(SECRET_BYTES)
    values: dict[str, Any] = {"name": name, "role": role.value, "created_by": created_by}
    values |= {"max_jobs": max_jobs, "max_bytes": max_bytes}
    values |= {"secret_digest": digest_of(secret), "prefix": secret[:PREFIX_LENGTH], "created_at": db_time()}
    with database.writing() as connection:
        added = insert_or_ignore(connection, AccessToken).values(values).returning(AccessToken.id)
        if connection.execute(added).scalar() is None:
            raise SpecError(f"there is a token {name!r} already; revoke it first (kvjobs tokens revoke {name})")
    return secret


def digest_of(secret: str) -> bytes:
    """The sha256 by which a secret is stored."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def valid_tokens(connection: Connection) -> list[Token]:
    """The tokens that are not revoked, by name."""
    return _tokens(connection, select(AccessToken).where(AccessToken.revoked_at.is_(None)).order_by(AccessToken.name))


def all_tokens(connection: Connection) -> list[Token]:
    """Every token, also those that are revoked, in the order of adding."""
    return _tokens(connection, select(AccessToken).order_by(AccessToken.id))


def revoke_token(database: Database, name: str) -> None:
    """Refuse a token from now on. Raises NotFoundError where no valid token has this name."""
    with database.writing() as connection:
        valid = AccessToken.revoked_at.is_(None)
        revoked = update(AccessToken).where(AccessToken.name == name, valid).values(revoked_at=db_time())
        if connection.execute(revoked).rowcount:
            return
        names = connection.execute(select(AccessToken.name).where(valid)).scalars().all()
    raise NotFoundError(f"there is no token {name!r}{meant(name, names)}; to list the tokens: kvjobs tokens ls")


def note_use(database: Database, token_id: int) -> None:
    """Note that a token is used now, unless that was noted in the last minute."""
    last = AccessToken.last_used_at
    is_old = or_(last.is_(None), last < db_time(-USE_NOTED_EVERY_S))
    with database.writing() as connection:
        connection.execute(update(AccessToken).where(AccessToken.id == token_id, is_old).values(last_used_at=db_time()))


def _tokens(connection: Connection, statement: Select[Any]) -> list[Token]:
    names = [column.name for column in fields(Token)]
    found = connection.execute(statement.with_only_columns(*(getattr(AccessToken, name) for name in names)))
    return [Token(**{**row, "role": Role(row["role"])}) for row in found.mappings()]
