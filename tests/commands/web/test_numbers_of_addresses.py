"""A number in an address is in its range or refused with a sentence; nothing that stands for one breaks a page."""

import re
from collections.abc import Iterator

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from jobs.web import live
from jobs.web.app import PAGES
from tests.rows import AddJob, Line

HUGE = "99999999999999999999"
NO_NUMBERS = ("nan", "inf", "1e400", "١٢", "-1", "five")


def of_query(dependant: Dependant) -> Iterator[tuple[str, str]]:
    """The parameters in an address' query, and the type of each."""
    for one in dependant.query_params:
        yield one.alias, str(one.field_info.annotation)
    for below in dependant.dependencies:
        yield from of_query(below)


PARAMETERS = sorted(
    (re.sub(r"\{[^}]+\}", "1", route.path), *parameter)
    for module in (*PAGES, live)
    for route in module.router.routes
    if isinstance(route, APIRoute) and "GET" in route.methods and not route.path.endswith("/actions/{action}")
    for parameter in of_query(route.dependant)
)
NUMBERS = [(path, name, "int" in kind) for path, name, kind in PARAMETERS if re.search(r"\b(int|float)\b", kind)]


def test_what_is_no_number_is_refused_with_a_sentence(client: TestClient, add_job: AddJob) -> None:
    add_job(Line("a", "甲"))
    assert {("/query.json", "timeout", False), ("/events", "job", True)} < set(NUMBERS)
    for path, name, is_whole in NUMBERS:
        for value in (*NO_NUMBERS, HUGE) if is_whole else NO_NUMBERS:
            answer = client.get(path, params={"sql": "select 1", name: value})
            assert answer.status_code == 400, (path, name, value)


def test_no_number_is_too_large_and_none_may_be_missing(client: TestClient, add_job: AddJob) -> None:
    add_job(Line("a", "甲"))
    for path, name, _ in PARAMETERS:
        for value in (HUGE, ""):
            if path != "/events":  # which does not end
                assert client.get(path, params={name: value}).status_code < 500, (path, name, value)


def test_a_number_in_a_path_has_the_range_of_a_row(client: TestClient) -> None:
    for number in ("0", HUGE, "-1", "١", "1_0", "1e3"):
        assert client.get(f"/jobs/{number}").status_code in (400, 404), number
