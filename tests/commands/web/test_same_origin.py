"""What another site makes a visitor's browser ask for is not done; programs and old browsers go on."""

import re

import pytest
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from jobs.web import live
from jobs.web.app import PAGES

BROWSER = {"user-agent": "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/145.0"}
PICTURE = {"sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
LINK = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "accept": "text/html"}
FRAME = LINK | {"sec-fetch-dest": "iframe"}
FOREIGN = (
    {"sec-fetch-site": "cross-site"} | PICTURE,
    {"sec-fetch-site": "same-site"} | PICTURE,  # another port of this machine is the same site
    {"sec-fetch-site": "cross-site"} | FRAME,
    {"sec-fetch-site": "cross-site", "sec-purpose": "prefetch"} | LINK,
    {"sec-fetch-site": "unheard-of"} | PICTURE,
    {"referer": "http://elsewhere.example/page"},
    {"referer": "http://testserver:9000/"},
    {"origin": "null"},
    {"accept": "image/avif,image/webp,*/*"},  # an old browser, told to send no Referer
)
OWN = (
    {"sec-fetch-site": "same-origin"} | PICTURE,
    {"sec-fetch-site": "none"} | LINK,
    {"referer": "http://testserver/query"},
)
SQL = {"sql": "select 6 * 7 as answer"}


ADDRESSES = [
    (method, re.sub(r"\{[^}]+\}", "1", route.path.replace("{action}", "cancel")))
    for module in (*PAGES, live)
    for route in module.router.routes
    if isinstance(route, APIRoute)
    for method in sorted(route.methods)
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_no_address_answers_another_site(client: TestClient, headers: dict[str, str]) -> None:
    assert ("GET", "/query.json") in ADDRESSES
    for method, address in ADDRESSES:
        assert client.request(method, address, params=SQL, headers=BROWSER | headers).status_code == 403, address


@pytest.mark.parametrize("headers", OWN, ids=str)
def test_our_own_pages_and_a_typed_address_are_answered(client: TestClient, headers: dict[str, str]) -> None:
    for address in ("/jobs", "/query.csv", "/metrics", "/healthz"):
        assert client.get(address, params=SQL, headers=BROWSER | headers).status_code == 200, address
    assert client.get("/query.json", params=SQL, headers=BROWSER | headers).json()["rows"] == [{"answer": 42}]


@pytest.mark.parametrize("name", ["curl/8.5.0", "python-httpx/0.28", "Prometheus/3.0", "kube-probe/1.31", ""])
def test_a_program_that_says_nothing_of_a_site_is_answered(client: TestClient, name: str) -> None:
    for address in ("/query.json", "/jobs.json", "/metrics", "/healthz"):
        assert client.get(address, params=SQL, headers={"user-agent": name}).status_code == 200, address


def test_a_link_elsewhere_opens_a_page_and_runs_no_query(client: TestClient) -> None:
    by_link = BROWSER | LINK | {"sec-fetch-site": "cross-site"}

    assert client.get("/jobs", headers=by_link).status_code == 200
    shown = client.get("/query", params=SQL, headers=by_link)

    assert shown.status_code == 200
    assert SQL["sql"] in shown.text, "the form holds the question"
    assert "answer-title" not in shown.text
    assert "answer-title" in client.get("/query", params=SQL, headers=by_link | OWN[0]).text
    for file in ("/query.json", "/query.csv", "/jobs/1/export", "/jobs.json"):
        assert client.get(file, params=SQL, headers=by_link).status_code == 403


def test_in_an_old_browser_a_typed_query_waits_for_its_form(client: TestClient) -> None:
    typed = BROWSER | {"accept": "text/html,*/*"}

    assert "answer-title" not in client.get("/query", params=SQL, headers=typed).text
    assert "answer-title" in client.get("/query", params=SQL, headers=typed | {"referer": "http://testserver/"}).text


def test_the_login_page_and_its_style_are_for_everybody(client: TestClient) -> None:
    foreign = BROWSER | FOREIGN[0]

    assert client.get("/login", headers=foreign).status_code == 200
    assert client.get("/static/style.css", headers=foreign).status_code == 200
    assert client.post("/login", headers=foreign).status_code == 403
