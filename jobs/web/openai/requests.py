"""What the routes below /v1 have in common: what is wrong with a request, its body, its page of a list."""

from collections.abc import Collection, Sequence
from typing import Any

import orjson
from fastapi import FastAPI, Request
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from jobs.choices import Role
from jobs.documents import kind_of, quoted
from jobs.errors import NotAllowedError, meant
from jobs.store.listed_rows import Page
from jobs.web.refusals import refuse
from jobs.web.visitors import Visitor, require, visitor_of

MOST_FILES, MOST_BATCHES = 10_000, 100  # of a page, as at OpenAI
ORDERS = ("asc", "desc")


class ApiError(Exception):
    """A request that is refused, as OpenAI's error object."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code

    def response(self) -> JSONResponse:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return JSONResponse({"error": error}, self.status)


def handle_api_errors(app: FastAPI) -> None:
    """Answer refusals below /v1, and bugs on any page, which is a sentence there."""

    @app.exception_handler(ApiError)
    def of_a_request(_request: Request, error: ApiError) -> JSONResponse:
        return error.response()

    @app.exception_handler(ClientDisconnect)
    def of_the_connection(request: Request, _error: ClientDisconnect) -> Response:
        return refuse(request.url.path, 400, "The request ends too early.")  # nobody reads it

    @app.exception_handler(Exception)
    def of_a_bug(request: Request, _error: Exception) -> Response:
        return refuse(request.url.path, 500, "This is a bug in kvjobs; its log says more.", code="internal_error")


def not_found(what: str, own_id: str) -> ApiError:
    """The refusal of an id that there is not, or that is somebody else's."""
    return ApiError(404, f"There is no {what} {quoted(own_id)}.", "id", "not_found")


def changing(request: Request) -> Visitor:
    """The visitor, who may submit. Raises NotAllowedError."""
    visitor = require(request, Role.PRODUCER)
    if request.app.state.options.read_only:
        raise NotAllowedError("this dashboard was started with --read-only, and changes nothing")
    return visitor


def owner_for(request: Request) -> str | None:
    """Whose files and batches the visitor sees; None: everybody's."""
    visitor = visitor_of(request)
    return None if visitor.is_operator else visitor.name


async def json_body(request: Request, known: Collection[str]) -> dict[str, Any]:
    """The object that was sent. Raises ApiError for what is none, and for a key that is not known."""
    try:
        values = orjson.loads(await request.body())
    except (orjson.JSONDecodeError, RecursionError):
        raise ApiError(400, "The body is not JSON.", None, "invalid_json") from None
    if not isinstance(values, dict):
        raise ApiError(400, f"The body is {kind_of(values)}, not an object.", None, "invalid_type")
    if unknown := next((name for name in values if name not in known), None):
        near = meant(unknown, known)
        raise ApiError(400, f"Unknown parameter: {quoted(unknown)}{near}.", unknown[:100], "unknown_parameter")
    return values


def text_of(values: dict[str, Any], name: str) -> str:
    """A text that has to be there. Raises ApiError."""
    value = values.get(name)
    if value is None:
        raise ApiError(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    if not isinstance(value, str) or not value:
        raise ApiError(400, f"'{name}' is {kind_of(value)}, and not a text.", name, "invalid_type")
    return value


def page_of(request: Request, most: int, default: int) -> Page:
    """The page of a list that the address asks for. Raises ApiError."""
    given = request.query_params
    order, limit = given.get("order", "desc"), given.get("limit", str(default))
    if order not in ORDERS:
        raise ApiError(400, f"'order' is {quoted(order)}; it can be asc or desc.", "order", "invalid_value")
    if not (limit.isascii() and limit.isdecimal() and len(limit) < 9 and 1 <= int(limit) <= most):
        raise ApiError(400, f"'limit' is {quoted(limit)}; it is a number from 1 to {most}.", "limit", "invalid_value")
    after = given.get("after") or None
    if after is not None and "\0" in after:
        raise not_found("object", after)
    return Page(owner=owner_for(request), after=after, limit=int(limit), newest_first=order == "desc")


def listed(rows: Sequence[dict[str, Any]], limit: int) -> dict[str, Any]:
    """A page of a list, from its rows and one more where there are more."""
    shown = rows[:limit]
    ends = {"first_id": shown[0]["id"], "last_id": shown[-1]["id"]} if shown else {"first_id": None, "last_id": None}
    return {"object": "list", "data": shown, **ends, "has_more": len(rows) > limit}
