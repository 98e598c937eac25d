"""Tokens with roles: what each may ask for, and that a revoked one ends."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from sqlalchemy import update
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from jobs.choices import Role
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.report.action_list import list_actions
from jobs.store.report.job_summary import find_job
from jobs.store.schema.tables import Job
from jobs.store.tokens import add_token, revoke_token, valid_tokens
from jobs.web import known_tokens
from jobs.web.access import MAX_FAILURES
from jobs.web.app import Options, create_app
from jobs.web.visitors import require, visitor_of
from tests.command_line import Kvjobs
from tests.rows import AddWaitingJob

Bearer = Callable[[Role], dict[str, str]]
OPEN = ("/login", "/healthz")
ASKS_BEFORE_ACTING = "/actions/"  # a page with the form of an action


@pytest.fixture
def app(database: Database, home: Path) -> FastAPI:
    """A dashboard of this machine, with two routes as those of an API that change something."""
    app = create_app(database, Settings(home=home, models_dir=home / "models"), Options(hosts=("testserver",)))

    def change(request: Request) -> PlainTextResponse:
        return PlainTextResponse(require(request, Role.PRODUCER).name)

    for path in ("/api/changes", "/v1/changes"):
        app.add_api_route(path, change, methods=["POST"])
    return app


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app) as client:
        yield client


@pytest.fixture
def bearer(database: Database) -> Bearer:
    """The header of a token of each role."""
    secrets = {role: add_token(database, role.value, role, "ann@here") for role in Role}
    return lambda role: {"authorization": f"Bearer {secrets[role]}"}


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens are read again at each request, not every two seconds."""
    monkeypatch.setattr(known_tokens.KnownTokens.refresh, "__defaults__", (0.0,))


def routes_of(app: FastAPI, job_id: int) -> list[tuple[str, str]]:
    """Method and address of every route, of a job that exists."""
    found = []
    for route in app.router.routes:
        if isinstance(route, APIRoute):
            path = route.path.replace("{job_id:int}", str(job_id)).replace("{action}", "pause")
            found += [(method, re.sub(r"\{[^}]+\}", "1", path)) for method in sorted(route.methods)]
    return found


def own(client: TestClient) -> dict[str, str]:
    return {"form_token": client.app.state.form_token}  # type: ignore[attr-defined]


def give(database: Database, job_id: int, owner: str) -> None:
    with database.writing() as connection:
        connection.execute(update(Job).where(Job.id == job_id).values(owner=owner))


def test_without_a_token_every_route_is_refused_as_soon_as_one_exists(
    client: TestClient, app: FastAPI, bearer: Bearer, running_job: int
) -> None:
    addresses = [(method, path) for method, path in routes_of(app, running_job) if path not in OPEN]
    assert ("POST", f"/jobs/{running_job}/actions/pause") in addresses
    assert len(addresses) > 30

    for method, path in addresses:
        assert client.request(method, path).status_code == 401, (method, path)


def test_a_viewer_changes_nothing_by_any_route(
    client: TestClient, app: FastAPI, bearer: Bearer, running_job: int
) -> None:
    give(client.app.state.database, running_job, Role.VIEWER.value)  # type: ignore[attr-defined]
    changing = [(method, path) for method, path in routes_of(app, running_job) if method not in ("GET", "HEAD")]
    assert len(changing) >= 6

    for method, path in changing:
        answer = client.request(method, path, headers=bearer(Role.VIEWER), data=own(client))
        assert answer.status_code == (401 if path == "/login" else 403), (method, path)


def test_a_viewer_reads_every_page_and_no_form_of_an_action(
    client: TestClient, app: FastAPI, bearer: Bearer, running_job: int
) -> None:
    reading = [path for method, path in routes_of(app, running_job) if method == "GET" and not path.endswith("/events")]

    codes = {path: client.get(path, headers=bearer(Role.VIEWER)).status_code for path in reading}

    forms = {path for path in codes if ASKS_BEFORE_ACTING in path or path in ("/jobs/actions", "/jobs/new")}
    assert {codes[path] for path in forms - {"/jobs/actions"}} == {403}
    assert codes["/jobs/actions"] in (400, 403)
    assert 403 not in {code for path, code in codes.items() if path not in forms}
    assert codes["/metrics"] == codes["/jobs"] == codes[f"/jobs/{running_job}/export"] == 200
    assert client.get("/query.json?sql=select+1+as+x", headers=bearer(Role.VIEWER)).json()["rows"] == [{"x": 1}]


@pytest.mark.parametrize("role", Role)
def test_pages_offer_a_role_what_it_may_do(client: TestClient, bearer: Bearer, running_job: int, role: Role) -> None:
    pages = {path: client.get(path, headers=bearer(role)).text for path in (f"/jobs/{running_job}", "/jobs")}

    assert ("/actions/cancel" in pages[f"/jobs/{running_job}"]) is (role is Role.OPERATOR)
    assert ('name="action"' in pages["/jobs"]) is (role is not Role.VIEWER)


def test_a_producer_acts_on_its_own_jobs_alone(
    client: TestClient, database: Database, bearer: Bearer, add_waiting_job: AddWaitingJob
) -> None:
    mine, others = add_waiting_job(), add_waiting_job()
    give(database, mine, Role.PRODUCER.value)
    give(database, others, "ann@here")
    producer = bearer(Role.PRODUCER)

    def pause(job_id: int) -> int:
        address = f"/jobs/{job_id}/actions/pause"
        return client.post(address, headers=producer, data=own(client), follow_redirects=False).status_code

    assert (pause(mine), pause(others)) == (303, 403)
    assert "/actions/resume" in client.get(f"/jobs/{mine}", headers=producer).text
    assert client.get(f"/jobs/{others}/actions/pause", headers=producer).status_code == 403
    chosen = client.get(f"/jobs/actions?action=cancel&job={mine}&job={others}", headers=producer).text
    assert "ann@here" in chosen
    client.post("/jobs/actions", headers=producer, data=own(client) | {"action": "cancel", "job": [mine, others]})
    with database.reading() as connection:
        assert [find_job(connection, str(job)).recorded_state for job in (mine, others)] == ["cancelled", "running"]
        assert {entry.actor for entry in list_actions(connection, mine)} == {"token producer, from testclient"}
        assert list_actions(connection, others) == []
    worker = client.post("/workers/1/actions/drain", headers=producer, data=own(client))
    assert worker.status_code == 403
    assert "operator" in worker.text


def test_an_operator_acts_on_every_job(client: TestClient, bearer: Bearer, add_waiting_job: AddWaitingJob) -> None:
    address = f"/jobs/{add_waiting_job()}/actions/cancel"

    answer = client.post(address, headers=bearer(Role.OPERATOR), data=own(client), follow_redirects=False)

    assert answer.status_code == 303


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("how", ["cookie", "bearer"])
def test_a_revoked_token_ends_also_where_somebody_logged_in_with_it(
    client: TestClient, database: Database, bearer: Bearer, how: str
) -> None:
    headers = bearer(Role.VIEWER)
    if how == "cookie":
        secret = headers["authorization"].partition(" ")[2]
        assert client.post("/login", data={"token": secret}, follow_redirects=False).status_code == 303
        assert secret not in str(client.cookies)
        headers = {}
    assert client.get("/jobs.json", headers=headers).status_code == 200

    revoke_token(database, "viewer")

    assert client.get("/jobs.json", headers=headers).status_code == 401
    add_token(database, "viewer", Role.VIEWER, "ann@here")
    assert client.get("/jobs.json", headers=headers).status_code == 401, "a new token of the name is another"


def test_what_is_known_of_tokens_is_read_again_within_seconds() -> None:
    assert known_tokens.READ_EVERY_S <= 5
    assert known_tokens.KnownTokens.refresh.__defaults__ == (known_tokens.READ_EVERY_S,)


def test_a_token_is_good_the_moment_that_it_was_added(client: TestClient, database: Database, bearer: Bearer) -> None:
    assert client.get("/jobs.json", headers=bearer(Role.VIEWER)).status_code == 200

    secret = add_token(database, "new", Role.VIEWER, "ann@here")

    assert client.get("/jobs.json", headers={"authorization": f"Bearer {secret}"}).status_code == 200


@pytest.mark.parametrize("cookie", ["0.{}", "1.{}", "1", "", "9999999999999999999999.{}", "x.{}", "-1.{}"])
def test_a_cookie_cannot_be_guessed(client: TestClient, bearer: Bearer, cookie: str) -> None:
    bearer(Role.VIEWER)

    answer = client.get("/jobs.json", headers={"cookie": f"kvjobs_token={cookie.format('0' * 64)}"})

    assert answer.status_code == 401


@pytest.mark.parametrize("guess", ["guess", f"kvj_{'A' * 43}"])
def test_who_guesses_a_token_is_told_to_wait(client: TestClient, bearer: Bearer, guess: str) -> None:
    wrong = {"authorization": f"Bearer {guess}"}
    codes = [client.get("/jobs.json", headers=wrong).status_code for _ in range(MAX_FAILURES + 1)]

    assert codes == [401] * MAX_FAILURES + [429]
    assert client.get("/jobs.json", headers=bearer(Role.VIEWER)).status_code == 200


def test_who_guesses_much_costs_the_database_nothing(
    client: TestClient, bearer: Bearer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    monkeypatch.setattr(known_tokens, "valid_tokens", lambda connection: read.append(connection) or [])
    monkeypatch.setattr(known_tokens.KnownTokens.refresh, "__defaults__", (3600.0,))
    client.app.state.tokens._always = True  # type: ignore[attr-defined]
    for number in range(3 * MAX_FAILURES):
        guess = f"kvj_{number:043}"
        assert client.get("/jobs.json", headers={"authorization": f"Bearer {guess}"}).status_code in (401, 429)
        client.post("/login", data={"token": guess})

    assert len(read) <= MAX_FAILURES + 1


def test_a_use_is_noted(client: TestClient, database: Database, bearer: Bearer) -> None:
    client.get("/jobs.json", headers=bearer(Role.VIEWER))

    with database.reading() as connection:
        used = {token.name: token.last_used_at is not None for token in valid_tokens(connection)}
    assert used == {"viewer": True, "producer": False, "operator": False}


def test_where_other_machines_reach_it_nobody_looks_without_a_token(database: Database, home: Path) -> None:
    options = Options(hosts=("*",), always_token=True)
    with TestClient(create_app(database, Settings(home=home, models_dir=home / "models"), options)) as client:
        assert client.get("/jobs.json").status_code == 401
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("read_only", [False, True])
def test_a_read_only_dashboard_lets_no_operator_act(
    database: Database, home: Path, bearer: Bearer, add_waiting_job: AddWaitingJob, read_only: bool
) -> None:
    options = Options(hosts=("testserver",), read_only=read_only)
    with TestClient(create_app(database, Settings(home=home, models_dir=home / "models"), options)) as client:
        address = f"/jobs/{add_waiting_job()}/actions/pause"
        answer = client.post(address, headers=bearer(Role.OPERATOR), data=own(client), follow_redirects=False)

    assert answer.status_code == (403 if read_only else 303)


def test_the_dashboard_may_be_reached_from_elsewhere_once_a_token_exists(
    kvjobs: Kvjobs, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[FastAPI] = []
    monkeypatch.setattr("jobs.web.server.serve", lambda app, bound: (served.append(app), bound.close()))
    refused = kvjobs("web", "--host", "0.0.0.0", "--port", 0)
    assert refused.exit_code == 2
    assert "kvjobs tokens add" in refused.err

    add_token(database, "ann", Role.OPERATOR, "ann@here")

    assert kvjobs("web", "--host", "0.0.0.0", "--port", 0).exit_code == 0
    with TestClient(served[0]) as client:
        revoke_token(database, "ann")
        assert client.get("/jobs.json").status_code == 401, "the last token is gone, and it stays closed"


@pytest.mark.parametrize("length", ["told", "not told"])
def test_a_token_uploads_no_more_than_it_allows(
    client: TestClient, app: FastAPI, database: Database, length: str
) -> None:
    async def upload(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(len(await request.body())))

    app.add_api_route("/api/uploads", upload, methods=["POST"])
    header = {"authorization": f"Bearer {add_token(database, 'ci', Role.PRODUCER, 'ann@here', max_bytes=1000)}"}

    def send(num_bytes: int) -> tuple[int, str]:
        body = b"x" * num_bytes if length == "told" else iter([b"x"] * num_bytes)
        answer = client.post("/api/uploads", content=body, headers=header)
        return answer.status_code, answer.text if answer.status_code == 200 else answer.json()["error"]["code"]

    assert (send(1000), send(1001)) == ((200, "1000"), (413, "too_large"))


API = ("/api/changes", "/v1/changes")
BROWSER = {"user-agent": "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/145.0"}
SIMPLE = BROWSER | {"content-type": "text/plain"}  # what a form or a script may send without asking first


@pytest.mark.parametrize("path", API)
@pytest.mark.parametrize(
    "headers",
    [
        SIMPLE | {"origin": "http://elsewhere.example"},
        SIMPLE | {"origin": "http://testserver:9000"},
        SIMPLE | {"origin": "null"},
        SIMPLE | {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
        SIMPLE | {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
        SIMPLE,  # an old browser, told to say nothing
        SIMPLE | {"origin": "http://elsewhere.example", "authorization": "Basic YTpi"},
    ],
)
def test_a_page_of_another_site_changes_nothing_by_an_api_that_needs_no_token(
    client: TestClient, path: str, headers: dict[str, str]
) -> None:
    assert client.post(path, headers=headers, content=b'{"task": "translate"}').status_code == 403


@pytest.mark.parametrize("path", API)
def test_a_name_that_leads_to_this_machine_does_not_open_an_api(client: TestClient, path: str) -> None:
    rebound = {"host": "rebound.example:8650", "origin": "http://rebound.example:8650", "sec-fetch-site": "same-origin"}

    assert client.post(path, headers=rebound).status_code == 400
    assert client.post(path, headers=rebound | {"authorization": "Bearer any"}).status_code == 400


@pytest.mark.parametrize("path", API)
@pytest.mark.parametrize(
    "headers",
    [
        {"user-agent": "curl/8.5.0"},
        {"user-agent": "OpenAI/Python 2.8.1", "authorization": "Bearer no-key-is-needed"},
        BROWSER | {"sec-fetch-site": "same-origin", "origin": "http://testserver"},
    ],
)
def test_programs_and_our_own_pages_use_an_api_that_needs_no_token(
    client: TestClient, path: str, headers: dict[str, str]
) -> None:
    assert client.post(path, headers=headers).status_code == 200


@pytest.mark.parametrize("path", API)
def test_a_program_with_a_token_is_asked_for_no_site(client: TestClient, bearer: Bearer, path: str) -> None:
    headers = bearer(Role.PRODUCER) | BROWSER | {"origin": "https://app.example", "sec-fetch-site": "cross-site"}

    answer = client.post(path, headers=headers)

    assert (answer.status_code, answer.text) == (200, "producer")


@pytest.mark.parametrize("path", API)
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (SIMPLE | {"origin": "http://testserver:9000"}, 403),  # the same site, which gets the cookie
        (SIMPLE | {"sec-fetch-site": "same-site"}, 403),
        (SIMPLE, 403),
        (BROWSER | {"origin": "http://testserver"}, 200),
    ],
)
def test_a_cookie_changes_something_by_an_api_only_for_our_own_pages(
    client: TestClient, bearer: Bearer, path: str, headers: dict[str, str], code: int
) -> None:
    secret = bearer(Role.OPERATOR)["authorization"].partition(" ")[2]
    client.post("/login", data={"token": secret})

    assert client.post(path, headers=headers).status_code == code


@pytest.mark.usefixtures("bearer")
def test_a_refusal_has_the_form_that_its_reader_knows(client: TestClient) -> None:
    of_openai = client.post("/v1/changes").json()
    ours = client.get("/api/nothing").json()

    assert of_openai["error"].keys() == {"message", "type", "param", "code"}
    assert (of_openai["error"]["type"], of_openai["error"]["code"]) == ("invalid_request_error", "invalid_api_key")
    assert ours["error"].keys() == {"code", "message", "hint"}
    assert ours["error"]["code"] == "unauthorized"
    assert client.get("/metrics").text.startswith("A token is needed")
    too_long = client.post("/v1/changes", content=b"x" * 70_000)
    assert (too_long.status_code, too_long.json()["error"]["code"]) == (413, "too_large")


def test_an_error_below_the_api_is_an_object_with_its_hint(client: TestClient, bearer: Bearer) -> None:
    answer = client.post("/api/changes", headers=bearer(Role.VIEWER))
    missing = client.get("/api/nothing", headers=bearer(Role.VIEWER))

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_allowed")
    assert "producer" in answer.json()["error"]["message"]
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")


def test_where_no_token_is_needed_everybody_is_an_operator(client: TestClient, app: FastAPI) -> None:
    app.add_api_route("/api/who", lambda request: PlainTextResponse(visitor_of(request).role), methods=["GET"])

    assert client.post("/api/changes").text == "dashboard, from testclient"
