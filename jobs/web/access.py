"""Who may look: the tokens of a dashboard, and the proof that a form is from one of our pages."""

import secrets
import time
from collections import deque
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from jobs.choices import Role
from jobs.errors import KvjobsError, SpecError
from jobs.web.connections import peer_of
from jobs.web.guards import is_short_enough, limited, upload_limit
from jobs.web.known_tokens import KnownTokens, is_same
from jobs.web.refusals import is_api, refuse
from jobs.web.rendering import render, status_code_of
from jobs.web.visitors import Visitor, too_low

COOKIE = "kvjobs_token"
LOGIN = "/login"
OPEN_PATHS = (LOGIN, "/static/", "/healthz")  # the login page itself, its style, and what a load balancer asks
CHANGING_NOTHING = ("GET", "HEAD", "OPTIONS")
MAX_FAILURES, WINDOW_S = 10, 60.0  # wrong tokens of a peer in a minute
MAX_PEERS = 10_000  # whose wrong tokens are remembered
NEEDED = "A token is needed: Authorization: Bearer TOKEN."

router = APIRouter()


class TokenRequired:
    """Finds out who asks (`request.state.visitor`): by the cookie of a login, or a token as `Authorization: Bearer`.
    Where a token is needed others are sent to the login page; /metrics, pages as JSON and what programs ask answer 401
    instead, since no person reads them. A visitor whose role is to look changes nothing, whatever a page would do."""

    def __init__(self, app: ASGIApp, tokens: KnownTokens, failures: "Failures") -> None:
        self._app = app
        self._tokens = tokens
        self._failures = failures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            app = await self._judge(request) or self._app
        except KvjobsError as error:
            app = refuse(scope["path"], status_code_of(error), str(error), code=error.code)
        request.state.needs_token = self._tokens.are_needed
        visitor: Visitor | None = getattr(request.state, "visitor", None)
        if visitor is not None and visitor.max_bytes is not None:
            receive = limited(receive, upload_limit(visitor.max_bytes))
        await app(scope, receive, send)
        if visitor is not None:
            await self._tokens.note_use(visitor)

    async def _judge(self, request: Request) -> Response | None:
        """The refusal of a request, or None: then the visitor is known, or the path is for everybody."""
        path, tokens = request.url.path, self._tokens
        if path.startswith(OPEN_PATHS[1:]):
            return None  # without the database, which may be away
        await tokens.refresh()
        if path.startswith(LOGIN):
            return None
        visitor = tokens.by_cookie(request, request.cookies.get(COOKIE, ""))
        bearer = None if visitor else bearer_of(request)
        if bearer is not None:
            visitor = await self._failures.look_up(tokens, request, bearer)
        if visitor is None and tokens.are_needed:
            return self._stranger(request, has_bearer=bearer is not None)
        visitor = visitor or tokens.anybody(request)
        if request.method not in CHANGING_NOTHING and not visitor.role.includes(Role.PRODUCER):
            return refuse(path, 403, too_low(visitor, Role.PRODUCER))
        if visitor.max_bytes is not None:
            limit = upload_limit(visitor.max_bytes)
            if not is_short_enough(request.scope, limit):
                return refuse(path, 413, f"{limit.too_long} The token {visitor.name} allows no more.")
        request.state.visitor = visitor
        return None

    def _stranger(self, request: Request, *, has_bearer: bool) -> Response:
        if has_bearer:
            if wait := self._failures.add(peer_of(request.client)):
                return too_many(request, wait)
        elif (
            request.method == "GET"
            and "text/html" in request.headers.get("accept", "")
            and not is_api(request.url.path)
        ):
            return RedirectResponse(f"{LOGIN}?to={quote(request.url.path)}", 303)
        return refuse(request.url.path, 401, NEEDED)


def bearer_of(request: Request) -> str | None:
    """The token of a program: a page of another site cannot send one, since the browser would ask us first (CORS)."""
    kind, _, bearer = request.headers.get("authorization", "").partition(" ")
    return _as_utf8(bearer) if kind.lower() == "bearer" else None


class Failures:
    """The wrong tokens of the last minute, by peer: a peer with too many is told to wait. The right token is accepted
    all the same, since behind a proxy all visitors are one peer. So it is the length of the token, not this limit,
    that makes guessing hopeless."""

    def __init__(self) -> None:
        self._times: dict[str, deque[float]] = {}  # by peer; the peer of the newest wrong token is the last

    async def look_up(self, tokens: KnownTokens, request: Request, secret: str) -> Visitor | None:
        """Who has this secret. For a peer with too many wrong tokens the database is not asked, so a token that was
        added a moment ago is unknown to it for seconds. Raises StoreError."""
        now, times = time.monotonic(), self._times.get(peer_of(request.client), ())
        if sum(now - then <= WINDOW_S for then in times) >= MAX_FAILURES:
            return tokens.by_secret(request, secret)
        return await tokens.by_new_secret(request, secret)

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


def too_many(request: Request, wait_s: float) -> Response:
    """The answer to a wrong token that comes too soon after others."""
    headers = {"retry-after": str(int(wait_s) + 1)}
    return refuse(request.url.path, 429, f"Too many wrong tokens. Try again in {wait_s:.0f} s.", headers=headers)


@router.get(LOGIN)
def login_page(request: Request, to: str = "/") -> Response:
    return render(request, "login.html", {"to": to, "wrong": False})


@router.post(LOGIN)
async def login(request: Request, token: Annotated[str, Form()] = "", to: Annotated[str, Form()] = "/") -> Response:
    """Give the browser a cookie that no script can read and no other site can send; it is good until this process
    ends, or the token is revoked."""
    tokens: KnownTokens = request.app.state.tokens
    failures: Failures = request.app.state.failures
    visitor = await failures.look_up(tokens, request, token)
    if visitor is None:
        if wait := failures.add(peer_of(request.client)):
            return too_many(request, wait)
        return render(request, "login.html", {"to": to, "wrong": True}, status_code=401)
    target = to if to.startswith("/") and not to.startswith(("//", "/\\")) else "/"
    response = RedirectResponse(target, 303)
    is_https = request.url.scheme == "https"
    cookie = tokens.cookie_of(visitor.token_id)
    response.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=is_https)
    return response


def _as_utf8(value: str) -> str:
    """The value of a header, which is bytes that were read as Latin-1. A program that wrote it as Latin-1 is understood
    too."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


def new_form_token() -> str:
    """A secret of this process, 256 bits, which stands in each of our forms, where another site cannot read it: so that
    it cannot send a form in a visitor's name (CSRF)."""
    return secrets.token_urlsafe(32)


def require_own_form(request: Request, form_token: str) -> None:
    """Raise SpecError unless a form comes from a page of this process."""
    if not is_same(form_token, request.app.state.form_token):
        raise SpecError("this form is from another page, or from before a restart: load the page again")
