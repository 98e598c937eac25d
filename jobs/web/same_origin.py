"""Requests that another site makes a visitor's browser send: an `<img>` that asks a query, a form that posts an action.

Where no token is asked for, the browser of whoever sits at this machine reaches the dashboard in the name of any page
that it has open. A browser says who asks (`Sec-Fetch-Site`, since 2023 all of them, to https and to this machine); an
older one says at most from which page (`Referer`, which our pages send to ourselves). Programs send neither.
"""

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

FREE = ("/login", "/static/")  # pages that cost nothing and show no data
REFUSAL = "Another site asked for this, so it was not done. Open the dashboard itself, and ask there.\n"


class SameOrigin:
    """Refuses what another site asks for, but for a page that a visitor opens by a link there. Such a page reads what
    every visit reads, and does not run what its address asks for (`is_followed_link`)."""

    def __init__(self, app: ASGIApp, has_token: bool) -> None:
        """With a token, only what a browser says itself counts: its cookie is never sent for another site, and behind
        a proxy the name in `Referer` may be another than in `Host`."""
        self._app = app
        self._has_token = has_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and not _is_free(scope):
            request = Request(scope)
            if _is_foreign(request, guess=not self._has_token):
                request.state.is_followed_link = _is_link(request)
                app = app if is_followed_link(request) else PlainTextResponse(REFUSAL, 403)
        await app(scope, receive, send)


def is_followed_link(request: Request) -> bool:
    """Whether a link on another site, or an address typed into an old browser, led here."""
    return getattr(request.state, "is_followed_link", False)


def _is_free(scope: Scope) -> bool:
    return scope["method"] in ("GET", "HEAD") and scope["path"].startswith(FREE)


def _is_foreign(request: Request, *, guess: bool) -> bool:
    headers = request.headers
    if site := headers.get("sec-fetch-site"):
        return site not in ("same-origin", "none")  # none: typed, or from a bookmark
    if not guess:
        return False
    if page := headers.get("origin") or headers.get("referer"):
        return urlsplit(page).netloc != headers.get("host")
    return "mozilla/" in headers.get("user-agent", "").lower()  # every browser calls itself that, and no program


def _is_link(request: Request) -> bool:
    """Whether the answer is a page that the visitor sees: nothing in a frame, or fetched in advance; no file."""
    headers = request.headers
    is_seen = headers.get("sec-fetch-dest", "document") == "document" and "sec-purpose" not in headers
    # An old browser tells a page from a picture only by what it accepts.
    is_page = headers.get("sec-fetch-mode") == "navigate" or "text/html" in headers.get("accept", "")
    is_file = request.url.path.endswith((".json", ".csv", "/export", "/events", "/metrics", "/healthz"))
    return request.method == "GET" and is_seen and is_page and not is_file
