"""The description of the API (OpenAPI 3.1), made of what each route says of itself and of the declared options.

https://spec.openapis.org/oas/v3.1.1.html
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from jobs import __version__
from jobs.number_ranges import Real, Whole
from jobs.tasks.option import Option

Schema = dict[str, Any]

JSON = "application/json"
ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {
                "code": {"type": "string", "description": "for programs: does not change between versions"},
                "message": {"type": "string"},
                "hint": {"type": ["string", "null"], "description": "what to do"},
            },
        }
    },
}
REFUSALS = {
    400: "an option, the body or the corpus cannot be used",
    401: "a token is needed",
    403: "the token does not allow it, or another site asks",
    404: "there is no such job or model",
    405: "the path takes another method",
    408: "the body did not arrive in time",
    409: "the key belongs to another request",
    413: "the body is too long",
    414: "the address is too long",
    415: "the body is of another type",
    421: "the server is not asked by this name",
    429: "a limit of the token is reached",
    500: "a bug, or an operational failure",
    503: "the database, the disk or the server is busy or away; try again after Retry-After seconds",
}
_PATH_PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
_CONVERTER = re.compile(r":path\}")  # a parameter that may have a slash in it


def described(
    summary: str,
    *,
    answer: Schema,
    status: Mapping[int, str] | None = None,
    media_types: Iterable[str] = (JSON,),
    query: Mapping[str, Option] | None = None,
    body: Schema | None = None,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What the decorator of a route gets. `answer`: the schema of what it answers; `status`: the codes with which it
    does so, and what each means; `body`: the content of a request by media type; `headers`: that it reads."""
    content = {media_type: {"schema": answer} for media_type in media_types}
    answers = {str(code): {"description": text, "content": content} for code, text in (status or {200: "ok"}).items()}
    refused = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    refusals = {str(code): {"description": text, "content": refused} for code, text in REFUSALS.items()}
    parameters = [
        *({"name": option.name, "in": "query"} | _parameter(option) for option in (query or {}).values()),
        *(
            {"name": name, "in": "header", "description": text, "schema": {"type": "string"}}
            for name, text in (headers or {}).items()
        ),
    ]
    operation: dict[str, Any] = {"summary": summary, "parameters": parameters, "responses": answers | refusals}
    if body is not None:
        operation["requestBody"] = body
    return {"openapi_extra": operation}


def document(routes: Iterable[BaseRoute]) -> Schema:
    """The description of these routes, in their order."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if isinstance(route, APIRoute) and route.openapi_extra:
            for method in route.methods or ():
                paths.setdefault(_CONVERTER.sub("}", route.path), {})[method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "kvjobs", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def schema_of(option: Option) -> Schema:
    """The values of an option, as JSON Schema."""
    if option.type is tuple:
        return {"type": "array", "items": {"type": "string"}}
    found: Schema = {"type": "string"}
    if option.type is bool:
        found = {"type": "boolean"}
    elif option.parse is None and option.numbers is not None:
        found = _numbers(option.numbers)
    elif option.choices:
        found = {"type": "string", "enum": [*option.choices]}
    if option.default is not None:
        plain = isinstance(option.default, bool | int | float)
        found["default"] = option.default if plain and found["type"] != "string" else str(option.default)
    return found


def _operation(route: APIRoute) -> dict[str, Any]:
    operation = dict(route.openapi_extra or {})
    of_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PATH_PARAMETER.findall(route.path)
    ]
    return {**operation, "operationId": route.name, "parameters": of_path + operation["parameters"]}


def _parameter(option: Option) -> dict[str, Any]:
    return {"description": option.help, "schema": schema_of(option)}


def _numbers(numbers: Whole | Real) -> Schema:
    if isinstance(numbers, Whole):
        return {"type": "integer", "minimum": numbers.least, "maximum": numbers.most}
    least = "exclusiveMinimum" if numbers.without_least else "minimum"
    return {"type": "number", least: numbers.least, "maximum": numbers.most}
