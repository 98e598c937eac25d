"""Pages: a value, shown by a template as HTML, or as it is as JSON under the same address with `.json`; and errors as
pages, with the right status code.

Knows: templates, the two forms. Does not know: what a page shows.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Annotated, Any
from urllib.parse import urlencode

import jinja2
import orjson
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, Response
from starlette.routing import Match, Route

from jobs import __version__
from jobs.choices import Role, state_in_words
from jobs.errors import (
    KeyTaken,
    KvjobsError,
    LimitReached,
    ModelError,
    NotAllowedError,
    NotFoundError,
    SpecError,
    StoreError,
    ValueRefused,
    advice_in,
)
from jobs.operations.option_names import with_names
from jobs.text import formatting
from jobs.text.formatting import visible
from jobs.web.charts import spec_of
from jobs.web.document_view.marked_text import marked, with_words
from jobs.web.refusals import is_api, refuse
from jobs.web.visitors import visitor_of

Data = Mapping[str, Any]

NAV_PAGES = (
    ("/", "Overview"),
    ("/jobs", "Jobs"),
    ("/compare", "Compare"),
    ("/workers", "Workers"),
    ("/models", "Models"),
    ("/query", "Query"),
    ("/schema", "Schema"),
)  # in the head of every page


class JsonResponse(Response):
    """A value as JSON: data classes as objects, times in ISO 8601."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        # By `_as_json`: orjson itself leaves out the properties of a data class, and fields of its base with slots.
        options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
        return orjson.dumps(content, default=_as_json, option=options) + b"\n"


def add_page(router: APIRouter, path: str, template: str, data: Callable[..., Data]) -> None:
    """Serve what `data` returns: at `path` shown by the template, at `path`.json as it is.

    `data` declares the parameters of the address, as FastAPI reads them.
    """

    def page(request: Request, found: Annotated[Data, Depends(data)]) -> Response:
        return render(request, template, found)

    def as_json(found: Annotated[Data, Depends(data)]) -> Response:
        return JsonResponse(found)

    router.add_api_route(path, page, methods=["GET"], response_class=HTMLResponse)
    router.add_api_route("/overview.json" if path == "/" else f"{path}.json", as_json, methods=["GET"])


def render(request: Request, template: str, data: Data, status_code: int = 200) -> HTMLResponse:
    """The HTML of a template with this data, and with the data of the layout that every page shares."""
    state, visitor = request.app.state, visitor_of(request)
    return HTMLResponse(
        _environment.get_template(template).render(
            data,
            request=request,
            path=request.url.path,
            version=__version__,
            visitor=visitor,
            read_only=state.options.read_only or visitor.role is Role.VIEWER,
            has_api=state.options.has_api,
            form_token=state.form_token,
            database=state.database.shown_url,
        ),
        status_code,
    )


def wants_json(request: Request) -> bool:
    return request.url.path.endswith((".json", ".csv"))


def address(request: Request, **changed: Any) -> str:
    """This page with other parameters; None removes one. All state of a list is in its address."""
    kept = {**request.query_params, **changed}
    query = urlencode({name: value for name, value in kept.items() if value not in (None, "")})
    return f"{request.url.path}?{query}" if query else request.url.path


def json_address(request: Request) -> str:
    """The address of the same page as JSON."""
    path = "/overview" if request.url.path == "/" else request.url.path
    return f"{path}.json" + (f"?{request.url.query}" if request.url.query else "")


def _as_json(value: Any) -> Any:
    if hasattr(value, "as_row"):
        return value.as_row()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def _file_version(name: str) -> str:
    """A part of the address of our own style and script that changes with them."""
    return hashlib.sha256((files("jobs.web") / "static" / name).read_bytes()).hexdigest()[:12]


def _make_environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("jobs.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("count", "counted", "figure", "percent", "speed", "duration", "precise", "size", "moment", "plain"):
        environment.filters[name] = getattr(formatting, name)
    environment.filters["visible"] = visible
    environment.filters["in_words"] = state_in_words
    environment.filters["spec"] = spec_of
    environment.filters["marked"] = marked
    environment.filters["with_words"] = with_words
    environment.filters["number"] = number
    environment.filters["probability"] = probability
    environment.globals.update(
        nav_pages=NAV_PAGES, address=address, json_address=json_address, file_version=_file_version
    )
    return environment


def probability(share: float | None) -> str:
    """0.153 as 15 %; a small share with as many digits as it needs."""
    if share is None:
        return formatting.NOTHING
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 1 else f"{percent:.1f} %" if percent >= 0.05 else "< 0.1 %"


def number(value: float | None) -> str:
    """A number as the value of a form's field; empty for None."""
    return "" if value is None else f"{value:.15g}"


_environment = _make_environment()


RETRY_AFTER_S = "5"  # for programs: the database is busy or away
STATUS_CODES: tuple[tuple[type[KvjobsError], int], ...] = (
    (NotFoundError, 404),
    (NotAllowedError, 403),
    (LimitReached, 429),
    (KeyTaken, 409),
    (SpecError, 400),
    (ModelError, 400),
    (ValueRefused, 400),
    (StoreError, 503),
)


def handle_errors(app: FastAPI) -> None:
    """Answer errors of kvjobs, of the address and of its parameters with a page, or with JSON where that was asked."""

    @app.exception_handler(KvjobsError)
    def of_kvjobs(request: Request, error: KvjobsError) -> Response:
        return _problem(request, status_code_of(error), str(error), error.code)

    @app.exception_handler(RequestValidationError)
    def of_a_parameter(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return _problem(request, 400, f"{'.'.join(map(str, first['loc'][1:]))}: {first['msg']}")

    @app.exception_handler(ClientDisconnect)
    def of_the_connection(_request: Request, _error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # nobody reads it

    @app.exception_handler(HTTPException)
    def of_the_address(request: Request, error: HTTPException) -> Response:
        sentence = "there is no such page" if error.status_code == 404 else str(error.detail)
        answer = _problem(request, error.status_code, sentence)
        answer.headers.update(error.headers or {})
        if error.status_code == 405:
            answer.headers["allow"] = ", ".join(_methods_of(request))
        return answer


def _methods_of(request: Request) -> list[str]:
    """The methods that the path of a request takes. (Starlette names those of the first route alone.)"""
    routes = [route for route in request.app.router.routes if isinstance(route, Route)]
    here = (route for route in routes if route.matches(request.scope)[0] is not Match.NONE)
    return sorted({method for route in here for method in route.methods or ()})


def status_code_of(error: KvjobsError) -> int:
    """The status code of the answer that tells of an error."""
    return next((code for kind, code in STATUS_CODES if isinstance(error, kind)), 500)


def _problem(request: Request, code: int, sentence: str, name: str | None = None) -> Response:
    """`name`: of the error, for programs."""
    if is_api(request.url.path):
        sentence = with_names(sentence)
        headers = {"retry-after": RETRY_AFTER_S} if code == 503 else None
        return refuse(request.url.path, code, sentence, code=name, hint=advice_in(sentence), headers=headers)
    if wants_json(request):
        return JsonResponse({"error": sentence}, code)
    return render(request, "problem.html", {"code": code, "sentence": sentence}, status_code=code)
