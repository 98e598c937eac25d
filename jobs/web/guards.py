"""What every request and every answer must obey: size of a request, headers that tell the browser what to refuse."""

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 64 * 1024  # bytes of a form; the largest is a query
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


class Guards:
    """Refuses requests that are too long, and adds the headers to every answer."""

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
    if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_PATH:
        return PlainTextResponse("The address is too long.\n", 414)
    length = dict(scope["headers"]).get(b"content-length", b"0")
    if not length.isdigit() or int(length) > MAX_BODY:
        return PlainTextResponse(f"{TOO_LONG}\n", 413)
    return None


def _limited(receive: Receive) -> Receive:
    """The body of a request that does not tell its length. Raises HTTPException 413 where it becomes too long."""
    left = MAX_BODY

    async def receive_some() -> Message:
        nonlocal left
        message = await receive()
        if message["type"] == "http.request":
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, TOO_LONG)
        return message

    return receive_some
