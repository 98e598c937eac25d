"""The options of a request: its query string and its JSON body, read by the declarations of options."""

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import Request
from starlette.exceptions import HTTPException

from jobs.errors import SpecError, meant
from jobs.tasks.option import Option

MOST_VALUES = 1000  # in a query string
MOST_NAMED = 10  # options in a message


def read_query(request: Request, known: Mapping[str, Option]) -> dict[str, Any]:
    """The values of the query string by the names of options. Raises SpecError for an option that there is not, and for
    a value that it cannot have."""
    texts: dict[str, list[str]] = {}
    for name, text in request.query_params.multi_items():
        texts.setdefault(name, []).append(text)
    for name in texts:
        _check_name(name, known)
    return {name: known[name].read_texts(_checked(name, given)) for name, given in texts.items()}


async def read_body(request: Request, known: Mapping[str, Option]) -> dict[str, Any]:
    """The values of a JSON object in the body by the names of options; no body is an empty object. Raises SpecError as
    `read_query` does, HTTPException (415) for a body that does not call itself JSON."""
    body = await request.body()
    if not body:
        return {}
    # A form of another site cannot send JSON: the browser would ask first.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "The body is JSON; send it with the header Content-Type: application/json.")
    try:
        values = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise SpecError(f"the body is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise SpecError("the body is no object of JSON; send {} with the options in it")
    for name in values:
        _check_name(name, known)
    return {name: known[name].read(value) for name, value in values.items()}


def _check_name(name: str, known: Mapping[str, Option]) -> None:
    if name not in known:
        takes = f"it takes {', '.join(known) or 'none'}" if len(known) <= MOST_NAMED else "GET /api/options lists them"
        raise SpecError(f"there is no option {name[:100]!r}{meant(name[:100], known)}; {takes}")


def _checked(name: str, texts: list[str]) -> list[str]:
    if len(texts) > MOST_VALUES:
        raise SpecError(f"{name} is given {len(texts)} times; give it at most {MOST_VALUES} times")
    if any("\0" in text for text in texts):
        raise SpecError(f"{name} has a NUL in it; leave it out")
    return texts
