"""/v1: who may, which models there are, and what there is not."""

from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from jobs.choices import Role
from jobs.operations.batch_runner import BatchRunner
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.tokens import add_token
from jobs.web.app import Options, create_app
from tests.commands.web.openai.asking import WINDOW, refusal, upload


@pytest.fixture
def bearer(database: Database) -> Callable[[str, Role], dict[str, str]]:
    def make(name: str, role: Role) -> dict[str, str]:
        return {"authorization": f"Bearer {add_token(database, name, role, 'test@here')}"}

    return make


def test_files_and_batches_are_their_owners(
    client: TestClient, runner: BatchRunner, bearer: Callable[[str, Role], dict[str, str]]
) -> None:
    ada, bob = bearer("ada", Role.PRODUCER), bearer("bob", Role.PRODUCER)
    operator = bearer("eve", Role.OPERATOR)
    file = upload(client, **ada)
    body = {"input_file_id": file["id"], **WINDOW}
    batch = client.post("/v1/batches", json=body, headers=ada).json()
    addresses = [f"/v1/files/{file['id']}", f"/v1/files/{file['id']}/content", f"/v1/batches/{batch['id']}"]

    for address in addresses:
        assert [client.get(address, headers=who).status_code for who in (ada, operator, bob)] == [200, 200, 404]
    assert refusal(client.post("/v1/batches", json=body, headers=bob), 400)["code"] == "not_found"
    assert refusal(client.delete(f"/v1/files/{file['id']}", headers=bob), 404)
    assert refusal(client.post(f"/v1/batches/{batch['id']}/cancel", headers=bob), 404)
    for address in ("/v1/files", "/v1/batches"):
        assert [len(client.get(address, headers=who).json()["data"]) for who in (ada, operator, bob)] == [1, 1, 0]
    assert refusal(client.get("/v1/files"), 401)["code"] == "invalid_api_key"


def test_who_may_only_look_sends_nothing(client: TestClient, bearer: Callable[[str, Role], dict[str, str]]) -> None:
    viewer = bearer("vic", Role.VIEWER)

    refusal(client.post("/v1/batches", json={}, headers=viewer), 403)
    refusal(client.post("/v1/files", content=b"", headers=viewer), 403)


@pytest.mark.parametrize(("options", "status"), [({"read_only": True}, 403), ({"has_api": False}, 404)])
def test_a_dashboard_without_changes_or_without_api_takes_nothing(
    database: Database, settings: Settings, options: dict[str, bool], status: int
) -> None:
    with TestClient(create_app(database, settings, Options(hosts=("testserver",), **options))) as client:
        refusal(client.post("/v1/batches", json={}), status)


def test_the_models_are_those_that_requests_may_name(client: TestClient) -> None:
    listed = client.get("/v1/models").json()["data"]

    assert [model["id"] for model in listed] == ["demo-en-zh", "demo-lm"]
    assert client.get("/v1/models/demo-lm").json() == listed[1]
    refusal(client.get("/v1/models/%2e%2e%2fetc"), 404)
    refusal(client.get("/v1/models/a/b"), 404)


@pytest.mark.parametrize(
    ("method", "address", "status"),
    [
        ("GET", "/v1", 404),
        ("GET", "/v1/rain", 404),
        ("PUT", "/v1/files", 405),
        ("GET", "/v1/files/..%2f..%2fetc", 404),
        ("GET", "/v1/files/file-%00", 404),
        ("GET", "/v1/files/.partial-1/content", 404),
        ("GET", "/v1/batches/batch_%00", 404),
        ("GET", f"/v1/batches/{'x' * 3000}", 404),
    ],
)
def test_an_address_that_there_is_not_is_an_error_object(
    client: TestClient, method: str, address: str, status: int
) -> None:
    refusal(client.request(method, address), status)
