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
