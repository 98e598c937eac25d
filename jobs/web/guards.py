"""Limits on the size and time of every request, and headers of every answer that tell the browser what to refuse."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobs.text.formatting import size
from jobs.web.connections import IS_CROWDED
from jobs.web.refusals import refuse

LONGEST_NUMBER = 18  # digits of a length
MAX_PATH = 16 * 1024  # bytes of an address: a query of SQL may stand in it

# Scripts, styles and pictures come from this server alone, and none stands in a page: a text of a document that looks
# like HTML could do nothing even if it were not escaped.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # by which an old browser tells our own pages from others (`same_origin`)
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
FOR_EVER = "public, max-age=31536000, immutable"  # files with a version in their name
CROWDED = "As many requests are being answered as the dashboard has places for. Try again in a moment."


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """How long the body of a request may be, and how much time it has."""

    noun: str  # what it is, for messages
    num_bytes: int
    seconds: float  # for all of it ...
    bytes_per_s: float = float("inf")  # ... and a second more for so many bytes that have come

    @property
    def too_long(self) -> str:
        return f"The {self.noun} is too long: at most {size(self.num_bytes)}."

    @property
    def too_slow(self) -> str:
        return f"The {self.noun} did not arrive in time; send it faster, or in parts."


FORM = BodyLimit("form", 64 * 1024, 10.0)  # the largest is a query
SLOWEST_UPLOAD = 1024.0  # bytes per second


def upload_limit(num_bytes: int) -> BodyLimit:
    """The limit of a file that is sent: what comes steadily has all the time that it needs."""
    return BodyLimit("upload", num_bytes, 60.0, SLOWEST_UPLOAD)


LimitOfRoute = tuple[str, re.Pattern[str], BodyLimit]  # a method, the whole path


class Guards:
    """Refuses requests that are too long, or come while the dashboard is full; adds the headers to every answer."""

    def __init__(self, app: ASGIApp, limits: Sequence[LimitOfRoute] = ()) -> None:
        """`limits`: of the routes that take more than a form."""
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_static = scope["path"].startswith("/static/")
        lifetime = FOR_EVER if scope["path"].startswith("/static/vendor/") else "no-cache" if is_static else "no-store"

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", lifetime)
            await send(message)

        limit = self._limit(scope)
        await (_refusal(scope, limit) or self._app)(scope, limited(receive, limit), send_with_headers)

    def _limit(self, scope: Scope) -> BodyLimit:
        for method, path, limit in self._limits:
            if scope["method"] == method and path.fullmatch(scope["path"]):
                return limit
        return FORM


def _refusal(scope: Scope, limit: BodyLimit) -> Response | None:
    path = scope["path"]
    if scope.get("state", {}).get(IS_CROWDED) and path != "/healthz":
        return refuse(path, 503, CROWDED, headers={"retry-after": "5", "connection": "close"})
    if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_PATH:
        return refuse(path, 414, "The address is too long.")
    return None if is_short_enough(scope, limit) else refuse(path, 413, limit.too_long)


def is_short_enough(scope: Scope, limit: BodyLimit) -> bool:
    """Whether the length that a request tells is a number within the limit; or it tells none."""
    length = dict(scope["headers"]).get(b"content-length", b"0")
    return length.isdigit() and len(length) <= LONGEST_NUMBER and int(length) <= limit.num_bytes


def limited(receive: Receive, limit: BodyLimit) -> Receive:
    """The body of a request, which may not tell its length. Raises HTTPException where it becomes too long (413) or
    does not end in time (408)."""
    num_bytes, is_whole = 0, False
    started = asyncio.get_running_loop().time()

    async def receive_some() -> Message:
        nonlocal num_bytes, is_whole
        until = None if is_whole else started + limit.seconds + num_bytes / limit.bytes_per_s
        try:
            async with asyncio.timeout_at(until):  # None: it waits for the end of the connection
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, limit.too_slow, {"connection": "close"}) from None
        if message["type"] == "http.request":
            is_whole = not message.get("more_body", False)
            num_bytes += len(message.get("body", b""))
            if num_bytes > limit.num_bytes:
                raise HTTPException(413, limit.too_long)
        return message

    return receive_some
