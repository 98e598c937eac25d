"""Files over HTTP: one, an archive, a form of several; what no folder of files has is refused, and leaves nothing."""

import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from jobs.answers import Answers
from jobs.corpus.translatable import archives, received_files
from jobs.outcome import Failed
from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.store.queue.record import record
from jobs.store.report.job_summary import list_jobs
from tests.command_line import Kvjobs
from tests.databases import ON_BOTH
from tests.rows import translated
from tests.store.leasing import LEASE_S

MANUAL = {
    "a.properties": b"hello=Hello\nbye=Bye\n",
    "ui/bad.properties": b"x=\\u12",
    "ui/page.md": b"# Rain\n",
    "img/logo.png": b"\x89PNG\r\n\x00",
    "img/map.svg.gz": b"\x1f\x8b\x08",  # packed, and no archive
}


def zipped(files: Mapping[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", how) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target.getvalue()


def tarred(files: Mapping[str, bytes], mode: str = "w:gz", **changed: Any) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode=mode) as archive:  # type: ignore[call-overload]  # a mode as a value
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            for field, value in changed.items():
                setattr(entry, field, value)
            archive.addfile(entry, io.BytesIO(content))
    return target.getvalue()


def sent(client: TestClient, body: bytes, name: str, code: int = 201, **options: Any) -> dict[str, Any]:
    answer = client.post("/api/jobs", content=body, params={"filename": name, **options})
    assert answer.status_code == code, answer.text
    found: dict[str, Any] = answer.json()
    return found


def upper(database: Database) -> None:
    """Let an engine answer each document in capitals, but Bye."""
    while (work := leases.lease(database, 1, 0, LEASE_S)) is not None:
        for index, batch in enumerate(work.batches):
            texts = [document.text.upper() for document in batch]
            answers = [Failed("engine-error", "broke") if text == "BYE" else translated(text) for text in texts]
            record(database, work, index, Answers(answers), lease_s=LEASE_S)


@pytest.mark.parametrize(
    "packed", [("manual.zip", zipped(MANUAL)), ("manual.tar.gz", tarred(MANUAL)), ("Manual.TAR", tarred(MANUAL, "w"))]
)
def test_an_archive_is_the_job_of_the_folder_that_it_holds(
    client: TestClient, kvjobs: Kvjobs, tmp_path: Path, home: Path, packed: tuple[str, bytes]
) -> None:
    for name, content in MANUAL.items():
        (tmp_path / "manual" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "manual" / name).write_bytes(content)
    here = kvjobs("submit", "manual", "--json").json["job_id"]

    assert sent(client, packed[1], packed[0], 200)["job"]["job_id"] == here
    assert [*(home / "spool").iterdir()] == []


@ON_BOTH
def test_files_that_were_sent_all_come_back_translated_as_far_as_they_are(
    client: TestClient, database: Database
) -> None:
    job = sent(client, zipped(MANUAL | {"__MACOSX/._a.md": b"x", ".git/b.md": b"x"}), "manual.zip")["job"]["job_id"]
    address = f"/api/jobs/{job}/files"
    before = {file["path"]: file["state"] for file in client.get(address).json()["files"]}
    upper(database)

    listed = {file.pop("path"): file for file in client.get(address).json()["files"]}
    first, second = (client.get(f"{address}?limit=3{after}").json() for after in ("", "&after=2"))
    with zipfile.ZipFile(io.BytesIO(client.get(f"/api/jobs/{job}/results?format=files").content)) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}

    assert before == {
        "a.properties": "waiting",
        "img/logo.png": "copied",
        "img/map.svg.gz": "copied",
        "ui/bad.properties": "rejected",
        "ui/page.md": "waiting",
    }
    assert {path: (file["state"], file["units"], file["translated"]) for path, file in listed.items()} == {
        "a.properties": ("partial", 2, 1),
        "img/logo.png": ("copied", 0, 0),
        "img/map.svg.gz": ("copied", 0, 0),
        "ui/bad.properties": ("rejected", 0, 0),
        "ui/page.md": ("done", 1, 1),
    }
    assert listed["ui/bad.properties"]["error"]
    assert (len(first["files"]), first["next"], len(second["files"]), second["next"]) == (3, 2, 2, None)
    assert found == MANUAL | {"a.properties": b"hello=HELLO\nbye=Bye\n", "ui/page.md": b"# RAIN\n"}
    for path, content in found.items():
        one = client.get(f"{address}/{path}")
        assert (one.content, one.headers["content-disposition"][:10]) == (content, "attachment")
    assert client.get(f"{address}/ui/none.md").status_code == 404


def test_one_file_is_known_by_its_name_or_by_its_type(client: TestClient, database: Database, kvjobs: Kvjobs) -> None:
    job = sent(client, b"# Rain\n", "C:\\Users\\ann\\page.md")["job"]
    other = client.post("/api/jobs", content=b"Rain", headers={"content-type": "text/markdown; charset=utf-8"})
    lines = sent(client, b'{"text": "Rain"}', "corpus.json", format="jsonl")["job"]
    upper(database)

    assert job["reading"]["units"]["name"] == "page.md"
    assert [
        file["path"] for file in client.get(f"/api/jobs/{other.json()['job']['job_id']}/files").json()["files"]
    ] == ["upload.md"]
    assert client.get(f"/api/jobs/{lines['job_id']}/files").json() == {"files": [], "next": None}
    assert client.get(f"/api/jobs/{job['job_id']}/results?format=files").content == b"# RAIN\n"
    assert f"-o job-{job['job_id']}.md" in kvjobs("show", str(job["job_id"])).out
    assert kvjobs("export", job["job_id"], "-o", "page.zh.md").exit_code == 0


def test_a_form_of_files_is_a_folder_and_one_of_a_corpus_the_corpus(client: TestClient, home: Path) -> None:
    form = [("file", (name, content)) for name, content in MANUAL.items()]
    several = client.post("/api/jobs", files=form).json()["job"]
    corpus = client.post("/api/jobs", files={"file": ("corpus.txt", b"Snow.\nRain.\n")}).json()["job"]
    archive = client.post("/api/jobs", files={"file": ("manual.zip", zipped(MANUAL))}).json()["job"]

    assert (several["documents"], archive["job_id"]) == (4, several["job_id"])
    assert (corpus["documents"], corpus["reading"]["format"]) == (2, "txt")
    assert client.post("/api/dry-run", files=form).json()["documents"] == 4
    assert client.post("/api/jobs?format=jsonl", files=form).status_code == 400
    assert client.post("/api/jobs", files=form, data={"name": "night"}).status_code == 400
    assert client.post("/api/jobs", content=NOTHING_CHOSEN, headers=AS_FORM).status_code == 400
    assert [*(home / "spool").iterdir()] == []


AS_FORM = {"content-type": "multipart/form-data; boundary=x"}
NOTHING_CHOSEN = b'--x\r\nContent-Disposition: form-data; name="file"; filename=""\r\n\r\n\r\n--x--\r\n'


def link_in_zip() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        entry = zipfile.ZipInfo("a.md")
        entry.external_attr = 0o120777 << 16
        archive.writestr(entry, "/etc/passwd")
    return target.getvalue()


def encrypted() -> bytes:
    found = bytearray(zipped({"a.md": b"x"}))
    found[6] |= 1
    found[found.index(b"PK\x01\x02") + 8] |= 1
    return bytes(found)


def long_directory() -> bytes:
    """A zip whose end tells of a directory of many megabytes before it."""
    length = archives.LARGEST_READ + 1
    return b"\0" * length + b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, 1, 1, length, 0, 0)


def long_header() -> bytes:
    """A tar with a header of pax of many megabytes."""
    return gzip.compress(tarred({"pax": b"9 a=" + b"x" * (archives.LARGEST_READ + 1)}, "w", type=tarfile.XHDTYPE))


ZIP, TAR = "manual.zip", "manual.tar.gz"
HOSTILE: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "a name that leads up": (ZIP, lambda: zipped({"a/../../x.md": b"x"}), "outside"),
    "a name that leads up, in a tar": (TAR, lambda: tarred({"../x.md": b"x"}), "outside"),
    "a name from the root": (ZIP, lambda: zipped({"/etc/x.md": b"x"}), "outside"),
    "a name from the root, in a tar": (TAR, lambda: tarred({"/etc/x.md": b"x"}), "outside"),
    "backslashes": (ZIP, lambda: zipped({"a\\..\\x.md": b"x"}), "backslash"),
    "a line break in a name": (ZIP, lambda: zipped({"a\nb.md": b"x"}), "rename"),
    "an empty part": (ZIP, lambda: zipped({"a//x.md": b"x"}), "empty part"),
    "a long name": (ZIP, lambda: zipped({"a" * 300 + ".md": b"x"}), "too long"),
    "a deep name": (ZIP, lambda: zipped({"a/" * 600 + "x.md": b"x"}), "too long"),
    "a link": (ZIP, link_in_zip, "a link"),
    "a link, in a tar": (TAR, lambda: tarred({"a.md": b""}, type=tarfile.SYMTYPE, linkname="/etc/passwd"), "a link"),
    "a hard link": (TAR, lambda: tarred({"a.md": b""}, type=tarfile.LNKTYPE, linkname="b.md"), "a link"),
    "a device": (TAR, lambda: tarred({"a.md": b""}, type=tarfile.CHRTYPE), "no plain file"),
    "a pipe": (TAR, lambda: tarred({"a.md": b""}, type=tarfile.FIFOTYPE), "no plain file"),
    "two files of one name": (TAR, lambda: tarred({"a.md": b"x", "./a.md": b"y"}), "two files"),
    "a file and a folder of one name": (ZIP, lambda: zipped({"a": b"x", "a/b.md": b"y"}), "two files"),
    "an archive in it": (ZIP, lambda: zipped({"a.md": b"x", "b/more.TAR.GZ": b"y"}), "archive itself"),
    "another archive in it": (TAR, lambda: tarred({"a.md": b"x", "more.zip": b"y"}), "archive itself"),
    "a bomb": (ZIP, lambda: zipped({f"{number}.md": bytes(20 << 20) for number in range(2)}), "out of proportion"),
    "a bomb, in a tar": (TAR, lambda: tarred({"a.md": bytes(40 << 20)}), "out of proportion"),
    "an encrypted file": (ZIP, encrypted, "password"),
    "a rare compression": (ZIP, lambda: zipped({"a.md": b"x"}, zipfile.ZIP_LZMA), "deflate"),
    "a long directory": (ZIP, long_directory, "directory"),
    "a long header": (TAR, long_header, "directory"),
    "a half of it": (ZIP, lambda: zipped(MANUAL)[:-40], "pack it again"),
    "a half of it, of a tar": (TAR, lambda: tarred(MANUAL)[:-40], "pack it again"),
    "another file": (ZIP, lambda: b"Hello", "pack it again"),
    "another file, as a tar": (TAR, lambda: b"Hello", "pack it again"),
    "nothing": (ZIP, lambda: b"", "pack it again"),
    "no file": (ZIP, lambda: zipped({}), "none of its files"),
    "no file that is translated": (ZIP, lambda: zipped({"logo.png": b"x"}), "none of its files"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_archive_is_one_sentence_and_leaves_nothing(
    client: TestClient, database: Database, home: Path, case: str
) -> None:
    name, made, said = HOSTILE[case]

    message = sent(client, made(), name, 400)["error"]["message"]

    assert said in message
    assert len(message) < 500 or said == "none of its files"
    assert "\n" not in message
    with database.reading() as connection:
        assert list_jobs(connection) == []
    assert [*(home / "spool").iterdir()] == []


def test_more_files_than_are_taken_are_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(received_files, "MOST_FILES", 3)
    monkeypatch.setattr(archives, "MOST_ENTRIES", 6)
    for number, said in ((4, "more than 3"), (7, "more than")):
        files = {f"{index}.md": b"x" for index in range(number)}
        assert said in sent(client, zipped(files), ZIP, 400)["error"]["message"]
        assert said in sent(client, tarred(files), TAR, 400)["error"]["message"]
    monkeypatch.setattr(received_files, "MAX_FILE_BYTES", 10)
    assert "at most 10 bytes" in sent(client, zipped({"a.png": bytes(11)}), ZIP, 400)["error"]["message"]
