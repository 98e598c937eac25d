"""Who may look: the token of a dashboard that others can reach, and the proof that a form is from one of our pages."""

import hmac
import secrets
import time
import unicodedata
from collections import deque
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from jobs.errors import SpecError
from jobs.web.connections import peer_of
from jobs.web.rendering import render

COOKIE = "kvjobs_token"
LOGIN = "/login"
OPEN_PATHS = (LOGIN, "/static/", "/healthz")  # the login page itself, its style, and what a load balancer asks
MAX_FAILURES, WINDOW_S = 10, 60.0  # wrong tokens of a peer in a minute
MAX_PEERS = 10_000  # whose wrong tokens are remembered

router = APIRouter()


class TokenRequired:
    """Lets a request pass that brings the cookie of a login, or the token as `Authorization: Bearer`; sends others to
    the login page. /metrics and pages as JSON answer 401 instead, since no person reads them."""

    def __init__(self, app: ASGIApp, token: str, session: str, failures: "Failures") -> None:
        self._app = app
        self._token = token
        self._session = session
        self._failures = failures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(OPEN_PATHS):
            await self._app(scope, receive, send)
            return
        await (self._refusal(Request(scope)) or self._app)(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        if is_same(request.cookies.get(COOKIE, ""), self._session):
            return None
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            if is_same(_as_utf8(bearer), self._token):
                return None
            if wait := self._failures.add(peer_of(request.client)):
                return too_many(wait)
        elif request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(f"{LOGIN}?to={quote(request.url.path)}", 303)
        return PlainTextResponse("A token is needed: Authorization: Bearer TOKEN.\n", 401)


class Failures:
    """The wrong tokens of the last minute, by peer: a peer with too many is told to wait. The right token is accepted
    all the same, since behind a proxy all visitors are one peer. So it is the length of the token, not this limit,
    that makes guessing hopeless."""

    def __init__(self) -> None:
        self._times: dict[str, deque[float]] = {}  # by peer; the peer of the newest wrong token is the last

    def add(self, peer: str) -> float:
        """Note a wrong token. Returns the seconds for which the peer has to wait; 0: it may try again."""
        now = time.monotonic()
        times = self._times.pop(peer, deque())
        while times and now - times[0] > WINDOW_S:
            times.popleft()
        self._times[peer] = times
        if len(self._times) > MAX_PEERS:
            del self._times[next(iter(self._times))]
        if len(times) >= MAX_FAILURES:
            return WINDOW_S - (now - times[0])
        times.append(now)
        return 0.0


def too_many(wait_s: float) -> Response:
    """The answer to a wrong token that comes too soon after others."""
    headers = {"retry-after": str(int(wait_s) + 1)}
    return PlainTextResponse(f"Too many wrong tokens. Try again in {wait_s:.0f} s.\n", 429, headers)


@router.get(LOGIN)
def login_page(request: Request, to: str = "/") -> Response:
    return render(request, "login.html", {"to": to, "wrong": False})


@router.post(LOGIN)
async def login(request: Request, token: Annotated[str, Form()] = "", to: Annotated[str, Form()] = "/") -> Response:
    """Give the browser a cookie that no script can read and no other site can send. It is not made from the token, so
    it tells nothing of it and cannot be guessed; it is good until this process ends."""
    wanted = request.app.state.options.token
    if wanted is None or not is_same(token, wanted):
        if wait := request.app.state.failures.add(peer_of(request.client)):
            return too_many(wait)
        return render(request, "login.html", {"to": to, "wrong": True}, status_code=401)
    target = to if to.startswith("/") and not to.startswith(("//", "/\\")) else "/"
    response = RedirectResponse(target, 303)
    response.set_cookie(
        COOKIE, request.app.state.session, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return response


def is_same(given: str, wanted: str) -> bool:
    """Whether a secret is right, in a time that does not tell how much of it is. A letter with an accent may have been
    written as one character or as two."""
    return hmac.compare_digest(
        *(unicodedata.normalize("NFC", secret).encode("utf-8", "surrogatepass") for secret in (given, wanted))
    )


def _as_utf8(value: str) -> str:
    """The value of a header, which is bytes that were read as Latin-1. A program that wrote it as Latin-1 is understood
    too."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


def new_secret() -> str:
    """A secret of this process, 256 bits: one is the cookie of a login; one stands in each of our forms, where another
    site cannot read it, so that it cannot send a form in a visitor's name (CSRF)."""
    return secrets.token_urlsafe(32)


def require_own_form(request: Request, form_token: str) -> None:
    """Raise SpecError unless a form comes from a page of this process."""
    if not is_same(form_token, request.app.state.form_token):
        raise SpecError("this form is from another page, or from before a restart: load the page again")
