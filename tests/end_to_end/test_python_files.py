"""Files from Python, here and to a server: the job of the command, and files as they were but for their texts."""

from pathlib import Path

import pytest

from kvjobs import Client, CorpusError
from tests.command_line import Kvjobs

FILES = {
    "app.properties": b"# rain\ngreeting=Rain is expected on {0}.\n",
    "ui/page.md": b"# Snow\n\n    code\n",
    "img/logo.png": b"\x89PNG",
}


@pytest.fixture
def manual(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / "manual" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "manual" / name).write_bytes(content)
    return tmp_path / "manual"


def test_a_folder_is_the_job_of_the_command_and_comes_back(kv: Client, kvjobs: Kvjobs, manual: Path) -> None:
    job = kv.submit(manual).wait(60)

    assert kvjobs("submit", manual, "--json").json["job_id"] == job.id
    assert [(file["path"], file["state"], file["translated"]) for file in job.files] == [
        ("app.properties", "done", 1),
        ("img/logo.png", "copied", 0),
        ("ui/page.md", "done", 1),
    ]
    job.export("manual.zh")
    found = {name: Path("manual.zh", name).read_bytes() for name in FILES}
    assert found["img/logo.png"] == FILES["img/logo.png"]
    assert found["app.properties"].startswith(b"# rain\ngreeting=\\u")
    assert b"{0}" in found["app.properties"]
    assert found["ui/page.md"].endswith(b"\n\n    code\n")


def test_a_file_is_one_and_several_paths_are_a_folder(kv: Client, manual: Path) -> None:
    one = kv.submit(str(manual / "ui/page.md"), priority="low")
    several = kv.submit([manual / "app.properties", manual / "ui"])

    assert [file["path"] for file in one.files] == ["page.md"]
    assert [file["path"] for file in several.files] == ["app.properties", "ui/page.md"]
    assert one.wait(60).export("page.zh.md") > 0
    several.wait(60).export("several.zip")
    assert one.info["source"] in (str(manual / "ui/page.md"), "an upload")
    with pytest.raises(CorpusError, match="nowhere"):
        kv.submit([manual / "app.properties", manual / "nowhere"])
    (manual / "page.csv").write_bytes(b"id;text\n1;Snow\n")
    assert kv.submit(manual / "page.csv", delimiter=";").info["reading"]["format"] == "csv"
