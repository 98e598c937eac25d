"""The form of a refusal, which depends on who asks: below /v1 the clients of OpenAI, below /api our own; elsewhere
people, who read a sentence. (Pages that refuse have a layout: `rendering`.)"""

from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import JSONResponse, PlainTextResponse, Response

API, OPENAI_API = "/api", "/v1"
# Codes of refusals that are no error of kvjobs, by status.
CODES = {
    401: "unauthorized",
    403: "not_allowed",
    404: "not_found",
    405: "wrong_method",
    408: "too_slow",
    409: "key_taken",
    413: "too_large",
    414: "address_too_long",
    415: "wrong_type",
    429: "limit_reached",
    503: "unavailable",
}


def refuse(
    path: str,
    status: int,
    sentence: str,
    *,
    code: str | None = None,
    hint: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The answer to a request for `path` that is refused. `code`: for programs, it does not change between versions;
    without one, that of the status. `hint`: what to do."""
    form = next((form for prefix, form in FORMS.items() if is_below(path, prefix)), None)
    if form is None:
        return PlainTextResponse(f"{sentence}\n", status, headers)
    return JSONResponse(form(status, sentence, code or CODES.get(status, "refused"), hint), status, headers)


def is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")


def is_api(path: str) -> bool:
    """Whether programs alone ask for this path."""
    return any(is_below(path, prefix) for prefix in FORMS)


def _own(_status: int, sentence: str, code: str, hint: str | None) -> dict[str, Any]:
    return {"error": {"code": code, "message": sentence, "hint": hint}}


def _of_openai(status: int, sentence: str, code: str, hint: str | None) -> dict[str, Any]:
    """https://platform.openai.com/docs/guides/error-codes"""
    kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
    message = sentence if hint is None or hint in sentence else f"{sentence} {hint}"
    code = "invalid_api_key" if status == 401 else code
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


FORMS: Mapping[str, Callable[[int, str, str, str | None], dict[str, Any]]] = {API: _own, OPENAI_API: _of_openai}
