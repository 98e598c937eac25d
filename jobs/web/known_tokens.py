"""The tokens by which the dashboard knows its visitors: that of the settings, and those of `kvjobs tokens`.

All that are valid are kept in memory and read again every two seconds at most: so a revoked one soon ends, also in
browsers that logged in with it, and those who guess cost the database nothing.
"""

import hmac
import re
import secrets
import threading
import time
import unicodedata
from collections.abc import Mapping
from contextlib import suppress

import anyio
from fastapi import Request

from jobs.choices import Role
from jobs.errors import KvjobsError
from jobs.store.database import Database
from jobs.store.tokens import USE_NOTED_EVERY_S, Token, digest_of, note_use, valid_tokens
from jobs.web.visitors import Visitor, where_from

READ_EVERY_S = 2.0
SECRET = re.compile(r"kvj_[A-Za-z0-9_-]{43}")
OF_SETTINGS = 0  # in a cookie: the number of the token of the settings
LONGEST_NUMBER = 19  # digits of an id
# Tokens are read in threads of their own, so that pages that take long do not keep other visitors from being known; and
# written in another, which may have to wait for a lock.
_threads, _writer = anyio.CapacityLimiter(2), anyio.CapacityLimiter(1)


class KnownTokens:
    """The valid tokens of a dashboard, and the cookies of those who logged in with them."""

    def __init__(self, database: Database, of_settings: str | None, *, always: bool) -> None:
        """`always`: a token is needed also where none exists, since other machines reach the dashboard."""
        self._database = database
        self._of_settings = of_settings
        self._always = always
        self._by_digest: Mapping[bytes, Token] = {}
        self._by_id: Mapping[int, Token] = {}
        self._read_at = float("-inf")
        self._reading = threading.Lock()
        self._key = secrets.token_bytes(32)  # of the cookies: they are good until this process ends
        self._noted: dict[int, float] = {}  # when the use of a token was noted, by this process

    @property
    def are_needed(self) -> bool:
        """Whether a visitor needs a token, as far as is known now."""
        return self._always or self._of_settings is not None or bool(self._by_id)

    async def refresh(self, at_most_s: float = READ_EVERY_S) -> None:
        """Read the tokens again unless what is known is at most so old. Raises StoreError."""
        since = time.monotonic() - at_most_s
        if self._read_at < since:
            await anyio.to_thread.run_sync(self._read, since, limiter=_threads)

    def by_secret(self, request: Request, secret: str) -> Visitor | None:
        """Who has this secret, among the tokens that are known."""
        if self._of_settings is not None and is_same(secret, self._of_settings):
            return self._visitor(request, OF_SETTINGS)
        token = self._by_digest.get(digest_of(secret)) if SECRET.fullmatch(secret) else None
        return self._visitor(request, token.id) if token else None

    async def by_new_secret(self, request: Request, secret: str) -> Visitor | None:
        """The same, and a token that was added a moment ago is known too. Raises StoreError."""
        found = self.by_secret(request, secret)
        if found is None and SECRET.fullmatch(secret):
            await self.refresh(0.0)
            found = self.by_secret(request, secret)
        return found

    def by_cookie(self, request: Request, cookie: str) -> Visitor | None:
        """Who logged in and got this cookie, while the token is valid."""
        number, _, _ = cookie.partition(".")
        if not number.isascii() or not number.isdecimal() or len(number) > LONGEST_NUMBER:
            return None
        return self._visitor(request, int(number)) if is_same(cookie, self.cookie_of(int(number))) else None

    def cookie_of(self, token_id: int | None) -> str:
        """The cookie of who logged in with a token; None: with that of the settings. It is made of the number and a
        secret of this process, so it tells nothing of the token and cannot be guessed."""
        number = str(token_id or OF_SETTINGS)
        return f"{number}.{hmac.digest(self._key, number.encode(), 'sha256').hex()}"

    def anybody(self, request: Request) -> Visitor:
        """Who asks where no token is needed, or has that of the settings: an operator, known by the address alone."""
        name = f"dashboard{where_from(request)}"
        return Visitor(name=name, role=Role.OPERATOR, actor=name)

    async def note_use(self, visitor: Visitor) -> None:
        """Note that a token was used, at most once a minute. A database that takes no writes does not matter."""
        now = time.monotonic()
        number = visitor.token_id
        if number is None or now - self._noted.get(number, float("-inf")) < USE_NOTED_EVERY_S:
            return
        self._noted[number] = now
        with suppress(KvjobsError):
            await anyio.to_thread.run_sync(note_use, self._database, number, limiter=_writer)

    def _read(self, since: float) -> None:
        with self._reading:
            if self._read_at >= since:
                return  # another thread has read them meanwhile
            now = time.monotonic()
            with self._database.reading() as connection:
                tokens = valid_tokens(connection)
            self._by_digest = {token.secret_digest: token for token in tokens}
            self._by_id = {token.id: token for token in tokens}
            self._read_at = now

    def _visitor(self, request: Request, number: int) -> Visitor | None:
        if number == OF_SETTINGS:
            return self.anybody(request) if self._of_settings is not None else None
        token = self._by_id.get(number)
        if token is None:
            return None
        return Visitor(
            name=token.name,
            role=token.role,
            actor=f"token {token.name}{where_from(request)}",
            token_id=token.id,
            max_jobs=token.max_jobs,
            max_bytes=token.max_bytes,
        )


def is_same(given: str, wanted: str) -> bool:
    """Whether a secret is right, in a time that does not tell how much of it is. A letter with an accent may have been
    written as one character or as two."""
    return hmac.compare_digest(
        *(unicodedata.normalize("NFC", secret).encode("utf-8", "surrogatepass") for secret in (given, wanted))
    )
