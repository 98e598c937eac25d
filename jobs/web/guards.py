"""Limits on the size and time of every request, and headers of every answer that tell the browser what to refuse."""

import asyncio

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobs.web.connections import IS_CROWDED

MAX_BODY = 64 * 1024  # bytes of a form; the largest is a query
MAX_BODY_S = 10.0  # until all of it has come
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
TOO_LONG = f"The form is too long: at most {MAX_BODY // 1024} KiB."
TOO_SLOW = f"The form did not arrive within {MAX_BODY_S:g} s."
CROWDED = "As many requests are being answered as the dashboard has places for. Try again in a moment.\n"


class Guards:
    """Refuses requests that are too long, or come while the dashboard is full; adds the headers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

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

        await (_refusal(scope) or self._app)(scope, _limited(receive), send_with_headers)


def _refusal(scope: Scope) -> PlainTextResponse | None:
    if scope.get("state", {}).get(IS_CROWDED) and scope["path"] != "/healthz":
        return PlainTextResponse(CROWDED, 503, {"retry-after": "5", "connection": "close"})
    if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_PATH:
        return PlainTextResponse("The address is too long.\n", 414)
    length = dict(scope["headers"]).get(b"content-length", b"0")
    if not length.isdigit() or int(length) > MAX_BODY:
        return PlainTextResponse(f"{TOO_LONG}\n", 413)
    return None


def _limited(receive: Receive) -> Receive:
    """The body of a request, which may not tell its length. Raises HTTPException where it becomes too long (413) or
    does not end in time (408)."""
    left, is_whole = MAX_BODY, False
    until = asyncio.get_running_loop().time() + MAX_BODY_S

    async def receive_some() -> Message:
        nonlocal left, is_whole
        try:
            async with asyncio.timeout_at(None if is_whole else until):  # then it waits for the end of the connection
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, TOO_SLOW, {"connection": "close"}) from None
        if message["type"] == "http.request":
            is_whole = not message.get("more_body", False)
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, TOO_LONG)
        return message

    return receive_some
