"""Requests that another site makes a visitor's browser send: an `<img>` that asks a query, a form that posts an action.

Where no token is asked for, the browser of whoever sits at this machine reaches the dashboard in the name of any page
that it has open. A browser says who asks (`Sec-Fetch-Site`, since 2023 all of them, to https and to this machine); an
older one says at most from which page (`Referer`, which our pages send to ourselves). Programs send neither.

Below /api and /v1 no form has a token of ours. So there a browser may change something only where it says that our own
page asks; a request with a token as `Authorization: Bearer` is no browser's that another site could have led.
"""

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from jobs.web.access import CHANGING_NOTHING, bearer_of
from jobs.web.refusals import is_api, refuse

FREE = ("/login", "/static/")  # pages that cost nothing and show no data
REFUSAL = "Another site asked for this, so it was not done. Open the dashboard itself, and ask there."


class SameOrigin:
    """Refuses what another site asks for, but for a page that a visitor opens by a link there. Such a page reads what
    every visit reads, and does not run what its address asks for (`is_followed_link`)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and not _is_free(scope):
            request = Request(scope)
            if _is_foreign(request, guess=_must_guess(request)):
                request.state.is_followed_link = _is_link(request)
                app = app if is_followed_link(request) else refuse(scope["path"], 403, REFUSAL)
        await app(scope, receive, send)


def is_followed_link(request: Request) -> bool:
    """Whether a link on another site, or an address typed into an old browser, led here."""
    return getattr(request.state, "is_followed_link", False)


def _is_free(scope: Scope) -> bool:
    if is_api(scope["path"]):
        return bearer_of(Request(scope)) is not None
    return scope["method"] in ("GET", "HEAD") and scope["path"].startswith(FREE)


def _must_guess(request: Request) -> bool:
    """Whether also a browser that does not say who asks is judged, by the page that it names. With a token that is not
    needed: its cookie is never sent for another site, and behind a proxy the name in `Referer` may be another than in
    `Host`. But another port of the same host is the same site, and could post to an API with the cookie."""
    return not request.state.needs_token or (is_api(request.url.path) and request.method not in CHANGING_NOTHING)


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
    return request.method == "GET" and is_seen and is_page and not is_file and not is_api(request.url.path)
