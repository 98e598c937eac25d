"""The files of a job over HTTP: the one file, or an archive of several."""

import io
import zipfile
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from jobs.corpus.corpus import Corpus
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.submission.submit import submit
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.databases import ON_BOTH

SPEC = JobSpec(task=Task.TRANSLATE, model="opus-mt-en-de", model_revision="r1", options=TranslateOptions())


@pytest.mark.parametrize("address", ["/api/jobs/{}/results?format=files", "/jobs/{}/export?format=files"])
def test_files_are_the_one_file_or_an_archive_of_several(
    client: TestClient, database: Database, tmp_path: Path, address: str
) -> None:
    folder = tmp_path / "manual"
    folder.mkdir()
    files = {"a.properties": b"hello=Hello", "logo.png": b"\x89PNG"}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    several = submit(database, Corpus(path=folder), SPEC, spool=tmp_path).job_id
    one = submit(database, Corpus(path=folder / "a.properties"), SPEC, spool=tmp_path).job_id

    with zipfile.ZipFile(io.BytesIO(client.get(address.format(several)).content)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == files
    assert client.get(address.format(one)).content == files["a.properties"]


@ON_BOTH
def test_the_page_of_a_job_lists_its_files(client: TestClient, database: Database, tmp_path: Path) -> None:
    folder = tmp_path / "manual"
    folder.mkdir()
    for name, content in {"a.properties": b"a=One\nb=Two", "bad.properties": b"a=\\u1", "<i>.png": b"\x89PNG"}.items():
        (folder / name).write_bytes(content)
    job = submit(database, Corpus(path=folder), SPEC, spool=tmp_path).job_id

    page = client.get(f"/jobs/{job}").text

    assert f'href="/jobs/{job}/documents?field=file&amp;value=a.properties"' in page
    assert "bad.properties" in page
    assert "&lt;i&gt;.png" in page
    assert "<i>.png" not in page


def test_the_downloads_of_a_job_of_files_have_them(client: TestClient, database: Database, tmp_path: Path) -> None:
    (tmp_path / "a.properties").write_bytes(b"hello=Hello")
    job = submit(database, Corpus(path=tmp_path / "a.properties"), SPEC, spool=tmp_path).job_id

    page = client.get(f"/jobs/{job}/documents").text

    assert "format=files" in page
    assert "format=original" not in page
    assert (
        'filename="job-1.properties"' in client.get(f"/jobs/{job}/export?format=files").headers["content-disposition"]
    )


@ON_BOTH
def test_the_page_of_a_unit_shows_the_units_around_it_and_its_file(
    client: TestClient, database: Database, tmp_path: Path
) -> None:
    (tmp_path / "manual").mkdir()
    for name, number in (("a.properties", 2), ("b & c.properties", 9)):
        lines = "".join(f"key{unit}=Text {unit} of {name[0]} <b>\n" for unit in range(number))
        (tmp_path / "manual" / name).write_text(lines)
    job = submit(database, Corpus(path=tmp_path / "manual"), SPEC, spool=tmp_path).job_id

    def around(unit: str) -> list[str]:
        found = client.get(f"/jobs/{job}/documents/{unit}.json").json()["file"]
        assert [entry["name"] for entry in found["units"] if entry["is_this"]] == [unit.partition("%23")[2]]
        return [entry["source"][:9] for entry in found["units"]]

    assert around("b%20&%20c.properties%23key4") == [f"Text {number} of" for number in range(1, 8)]
    assert around("b%20&%20c.properties%23key0") == [f"Text {number} of" for number in range(4)], (
        "none of the other file"
    )
    page = client.get(f"/jobs/{job}/documents/b%20&%20c.properties%23key8").text
    assert f'href="/jobs/{job}/files/b%20%26%20c.properties"' in page
    assert "Text 7 of b &lt;b&gt;" in page
    saved = client.get(f"/jobs/{job}/files/b%20%26%20c.properties")
    assert saved.content.startswith(b"key0=Text 0 of b")
    assert saved.headers["content-disposition"].startswith("attachment")
    assert client.get(f"/jobs/{job}/files/../../etc/passwd").status_code == 404


def test_all_files_are_listed_page_by_page(
    client: TestClient, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.web.pages.files.FILES_SHOWN", 1)
    monkeypatch.setattr("jobs.web.pages.files.FILES_A_PAGE", 2)
    for number in range(3):
        (tmp_path / "manual").mkdir(exist_ok=True)
        (tmp_path / "manual" / f"{number}.properties").write_bytes(b"a=Rain")
    job = submit(database, Corpus(path=tmp_path / "manual"), SPEC, spool=tmp_path).job_id

    assert f'href="/jobs/{job}/files"' in client.get(f"/jobs/{job}").text
    first, second = (client.get(f"/jobs/{job}/files.json{rest}").json() for rest in ("", "?after=1"))
    assert [file["path"] for found in (first, second) for file in found["files"]] == [
        f"{n}.properties" for n in range(3)
    ]
    assert f'href="/jobs/{job}/files?after=1"' in client.get(f"/jobs/{job}/files").text
