"""Terms that are sent once, and named by the submits that use them."""

import gzip
import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from jobs.choices import Role
from jobs.store.database import Database
from jobs.store.glossaries import read_glossary_content
from jobs.store.tokens import add_token
from jobs.terms.glossary import MAX_BYTES, Glossary, read_glossary, read_kept_terms
from jobs.web.guards import MAX_PATH

LINES = b'{"id": "a", "text": "Snow."}\n'
MANY = "".join(f"word{number}\tWort{number}\n" for number in range(5_000))


def store(client: TestClient, body: bytes, code: int = 200, **params: Any) -> dict[str, Any]:
    answer = client.post("/api/glossaries", content=body, params=params)
    assert answer.status_code == code, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_terms_that_fit_into_no_address_are_stored_and_named(client: TestClient, database: Database) -> None:
    assert len(MANY) > MAX_PATH

    found = store(client, MANY.encode())
    submitted = client.post("/api/jobs", params={"glossary": found["glossary"]}, content=LINES).json()

    assert found == {"glossary": str(read_glossary(MANY)), "terms": 5_000}
    assert submitted["job"]["options"]["glossary"] == found["glossary"]
    digest = found["glossary"].removeprefix("sha256:")
    assert len(read_glossary_content(database, Glossary(digest)).terms()) == 5_000


@pytest.mark.parametrize(
    ("body", "params", "stored"),
    [
        (gzip.compress(b"rain\tRegen\n"), {}, read_glossary("rain\tRegen")),
        (json.dumps({"rain": "Regen"}).encode(), {}, read_glossary("rain\tRegen")),
        (b"Berlin\nKelso\n", {"no_translate": "true"}, read_kept_terms("Kelso\nBerlin")),
    ],
    ids=["gzip", "json", "kept"],
)
def test_the_body_is_what_a_file_holds(
    client: TestClient, body: bytes, params: dict[str, str], stored: Glossary
) -> None:
    assert store(client, body, **params)["glossary"] == str(stored)
    assert store(client, body, **params)["glossary"] == str(stored), "sent again it is the same"


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"rain\tRegen\nsnow\n", "line 2"), (b"", "no term"), (b"\xff\x00", "UTF-8"), (gzip.compress(b"a")[:9], "gzip"),
     (f"sha256:{'0' * 64}".encode(), "name of a glossary")],
    ids=["no tab", "empty", "bytes", "cut", "name"],
)  # fmt: skip
def test_what_is_no_glossary_is_said(client: TestClient, body: bytes, said: str) -> None:
    assert said in store(client, body, 400)["error"]["message"]


def test_what_is_too_long_is_refused(client: TestClient) -> None:
    assert store(client, gzip.compress(b"x" * (MAX_BYTES + 1)), 400)
    assert client.post("/api/glossaries", content=b"x" * (MAX_BYTES + 1)).status_code == 413


def test_only_producers_store_terms(client: TestClient, database: Database) -> None:
    token = add_token(database, "reader", Role.VIEWER, "admin")

    answer = client.post("/api/glossaries", content=b"a\tb", headers={"authorization": f"Bearer {token}"})

    assert answer.status_code == 403
