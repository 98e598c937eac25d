"""Who may look: the token of a dashboard that others can reach, and the proof that a form is from one of our pages."""

import hmac
import secrets
import time
from collections import deque
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from jobs.errors import SpecError
from jobs.web.rendering import render

COOKIE = "kvjobs_token"
LOGIN = "/login"
OPEN_PATHS = (LOGIN, "/static/", "/healthz")  # the login page itself, its style, and what a load balancer asks
MAX_FAILURES, WINDOW_S = 10, 60.0  # wrong tokens in a minute, from all visitors together

router = APIRouter()


class TokenRequired:
    """Lets a request pass that brings the token, in a cookie or as `Authorization: Bearer`; sends others to the login
    page. /metrics and pages as JSON answer 401 instead, since no person reads them."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(OPEN_PATHS) or self._is_known(scope):
            await self._app(scope, receive, send)
            return
        refusal: Response
        if scope["method"] == "GET" and "text/html" in Headers(scope=scope).get("accept", ""):
            refusal = RedirectResponse(f"{LOGIN}?to={quote(scope['path'])}", 303)
        else:
            refusal = PlainTextResponse("A token is needed: Authorization: Bearer TOKEN.\n", 401)
        await refusal(scope, receive, send)

    def _is_known(self, scope: Scope) -> bool:
        request = Request(scope)
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return is_same(bearer, self._token)
        return is_same(request.cookies.get(COOKIE, ""), _cookie_of(self._token))


class Failures:
    """Wrong tokens of the last minute: after some, everybody waits. A lock-out by address would stop nobody who has
    many, and behind a proxy all visitors have one."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()

    def wait_s(self) -> float:
        """Seconds until the next try is allowed."""
        now = time.monotonic()
        while self._times and now - self._times[0] > WINDOW_S:
            self._times.popleft()
        return 0.0 if len(self._times) < MAX_FAILURES else WINDOW_S - (now - self._times[0])

    def add(self) -> None:
        self._times.append(time.monotonic())


@router.get(LOGIN)
def login_page(request: Request, to: str = "/") -> Response:
    return render(request, "login.html", {"to": to, "wrong": False})


@router.post(LOGIN)
def login(request: Request, token: Annotated[str, Form()] = "", to: Annotated[str, Form()] = "/") -> Response:
    """Keep the token in a cookie that no script can read and no other site can send."""
    wanted, failures = request.app.state.options.token, request.app.state.failures
    if wait := failures.wait_s():
        headers = {"retry-after": str(int(wait) + 1)}
        return PlainTextResponse(f"Too many wrong tokens. Try again in {wait:.0f} s.\n", 429, headers)
    if wanted is None or not is_same(token, wanted):
        failures.add()
        return render(request, "login.html", {"to": to, "wrong": True}, status_code=401)
    target = to if to.startswith("/") and not to.startswith(("//", "/\\")) else "/"
    response = RedirectResponse(target, 303)
    response.set_cookie(
        COOKIE, _cookie_of(wanted), httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return response


def is_same(given: str, wanted: str) -> bool:
    """Whether a secret is right, in a time that does not tell how much of it is."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), wanted.encode())


def _cookie_of(token: str) -> str:
    """What a browser keeps: who reads it from a disk has not the token itself."""
    return hmac.new(token.encode(), b"cookie of the kvjobs dashboard", "sha256").hexdigest()


def new_form_token() -> str:
    """A secret of this process that stands in each of our forms. Another site cannot read it, so it cannot send a form
    in a visitor's name (CSRF)."""
    return secrets.token_urlsafe(32)


def require_own_form(request: Request, form_token: str) -> None:
    """Raise SpecError unless a form comes from a page of this process."""
    if not is_same(form_token, request.app.state.form_token):
        raise SpecError("this form is from another page, or from before a restart: load the page again")
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise SpecError("this form was sent by another site")
