"""The form that submits a file: for producers, from a page of ours, the same job as by the command."""

from typing import Any

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from jobs.choices import Role
from jobs.store.database import Database
from jobs.store.report.job_summary import list_jobs
from jobs.store.tokens import add_token
from jobs.terms.glossary import read_glossary, read_kept_terms
from tests.messages import line_with

CSV = b"id;text\na;Snow.\nb;Rain.\n"
LINES = b'{"id": "a", "text": "Snow."}\n'


def send(client: TestClient, body: bytes = LINES, file_name: str = "corpus.jsonl", **fields: Any) -> Response:
    """The form as a browser sends it: its fields in the order of the page."""
    own = {"form_token": client.app.state.form_token}  # type: ignore[attr-defined]
    answer: Response = client.post(
        "/jobs/new", data=own | fields, files={"corpus": (file_name, body)}, follow_redirects=False
    )
    return answer


def num_jobs(database: Database) -> int:
    with database.reading() as connection:
        return len(list_jobs(connection))


def test_the_form_makes_the_job_and_goes_to_its_page(client: TestClient) -> None:
    page = client.get("/jobs/new").text
    assert 'enctype="multipart/form-data"' in page
    assert "demo-en-zh" in page

    answer = send(client, task="translate", beam_size="2", name="night", priority="", max_length="64")

    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs/1")
    job = client.get("/api/jobs/night").json()
    assert (job["options"]["beam_size"], job["documents"], job["priority"]) == (2, 1, 0)
    assert client.post("/api/jobs?beam_size=2", content=LINES).json()["job"]["job_id"] == 1


def test_terms_are_those_of_the_file_on_the_command_line(client: TestClient, database: Database) -> None:
    assert (
        send(client, task="translate", glossary="rain\tRegen\r\nsnow\tSchnee\r\n", no_translate="Kelso").status_code
        == 303
    )

    options = client.get("/api/jobs/1").json()["options"]
    assert options["glossary"] == str(read_glossary("snow\tSchnee\nrain\tRegen"))
    assert options["no_translate"] == str(read_kept_terms("Kelso"))


def test_a_line_without_a_tab_is_said_and_the_terms_stay_in_the_form(client: TestClient, database: Database) -> None:
    answer = send(client, task="translate", glossary="snow </textarea>\nrain\tRegen")

    assert answer.status_code == 400
    assert line_with(answer.text, 'id="problem"', "line 1", "tab")
    assert "\nsnow &lt;/textarea&gt;\nrain\tRegen</textarea>" in answer.text
    assert num_jobs(database) == 0


def test_the_format_follows_the_name_of_the_file(client: TestClient) -> None:
    assert send(client, b"Snow.\nRain.\n", "../../notes.TXT.gz").status_code == 303
    assert client.get("/api/jobs/1").json()["reading"]["format"] == "txt"
    assert send(client, CSV, "table", format="csv").status_code == 400


def test_a_dry_run_counts_and_makes_no_job(client: TestClient, database: Database) -> None:
    page = send(client, file_name="<b>.jsonl", dry_run="true").text

    assert line_with(page, "&lt;b&gt;.jsonl", "would compute")
    assert num_jobs(database) == 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"beam_size": "x"}, "beam_size"),
        ({"model": "/etc"}, "model is a path"),
        ({"task": "nosuch"}, "task"),
        ({"name": "<script>alert(1)</script>\0"}, "script"),
        ({"body": b""}, "no document"),
    ],
)
def test_what_cannot_be_is_said_beside_what_was_filled_in(
    client: TestClient, database: Database, fields: dict[str, Any], said: str
) -> None:
    answer = send(client, **{"task": "translate", "priority": "7"} | fields)

    assert answer.status_code == 400
    assert line_with(answer.text, 'id="problem"', said)
    assert 'value="7"' in answer.text
    assert "<script>alert" not in answer.text
    assert num_jobs(database) == 0


def test_a_form_of_another_page_is_not_read(client: TestClient, database: Database, home: Any) -> None:
    for token in ("", "guessed"):
        assert send(client, form_token=token).status_code == 400
    own = client.app.state.form_token  # type: ignore[attr-defined]
    assert client.post("/jobs/new", content=LINES, headers={"content-type": "text/plain"}).status_code == 400
    foreign = {"sec-fetch-site": "cross-site"}
    assert client.post("/jobs/new", data={"form_token": own}, headers=foreign).status_code == 403
    assert num_jobs(database) == 0
    assert [*(home / "spool").iterdir()] == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--x\r\n",
        b'--x\r\nContent-Disposition: form-data; name="form_token"\r\n\r\nx',
        b"--x\r\n" + b"a" * 100_000 + b": b\r\n\r\n",
        b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + b"a" * 100_000 + b"\r\n--x--\r\n",
        b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' * 300,
        b"\0" * 1000,
    ],
)
def test_a_broken_form_is_a_sentence(client: TestClient, body: bytes) -> None:
    answer = client.post("/jobs/new", content=body, headers={"content-type": "multipart/form-data; boundary=x"})

    assert answer.status_code == 400
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("role", Role)
def test_who_may_submit_has_the_link(client: TestClient, database: Database, role: Role) -> None:
    bearer = {"authorization": f"Bearer {add_token(database, 'visitor', role, 'ann@here')}"}

    page = client.get("/jobs", headers=bearer).text

    assert ('href="/jobs/new"' in page) is (role is not Role.VIEWER)
    assert client.get("/jobs/new", headers=bearer).status_code == (403 if role is Role.VIEWER else 200)


def test_several_files_and_a_folder_are_files_that_come_back(client: TestClient) -> None:
    own = {"form_token": client.app.state.form_token, "task": "translate"}  # type: ignore[attr-defined]
    chosen = [("folder", (name, b"# Rain\n")) for name in ("manual/a.md", "manual/ui/b.md", "manual/.git/c.md")]

    answer = client.post("/jobs/new", data=own, files=chosen, follow_redirects=False)
    counted = client.post("/jobs/new", data=own | {"dry_run": "true"}, files=chosen).text
    refused = client.post("/jobs/new", data=own, files=[("corpus", ("../a.md", b"x")), ("corpus", ("b.md", b"x"))])

    assert answer.headers["location"] == "/jobs/1"
    listed = client.get("/api/jobs/1/files").json()["files"]
    assert [file["path"] for file in listed] == ["manual/a.md", "manual/ui/b.md"]
    assert line_with(counted, "3 files", "would compute")
    assert refused.status_code == 400
    assert line_with(refused.text, 'id="problem"', "../a.md")


def test_a_field_for_files_that_nobody_chose_is_none(client: TestClient) -> None:
    own = client.app.state.form_token  # type: ignore[attr-defined]
    parts = (("form_token", "", own), ("corpus", '; filename="a.md"', "# Rain"), ("folder", '; filename=""', ""))
    body = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n' for name, more, value in parts
    )
    headers = {"content-type": "multipart/form-data; boundary=x"}

    answer = client.post("/jobs/new", content=f"{body}--x--\r\n", headers=headers, follow_redirects=False)

    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs/1")
    assert client.get("/api/jobs/1").json()["reading"]["units"]["name"] == "a.md"
