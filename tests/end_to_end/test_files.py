"""A folder of files through a worker: they come back translated, with their marks, and otherwise as they were."""

from pathlib import Path

import pytest

from tests.command_line import Kvjobs
from tests.machine import Machine

FILES = {
    "index.md": "---\ntitle: Rain\n---\n# Snow\n\n"
    "Rain will fall on **Monday** in the *north* of `x.toml`.\n\n```\nSnow\n```\n",
    "ui/app.properties": "# of the page\ngreeting=Rain on {0} at %s.\n",
    "ui/messages.json": '{"towns": "{n, plural, =0 {None} one {Rain in # town.} other {Rain in # towns.}}", "n": 1}\n',
    "page.html": '<html lang="en"><p>Snow will <b>fall</b> on Monday.</p><pre>Snow</pre></html>\n',
}
KEPT = {
    "index.md": ["---\ntitle: Rain\n---\n# ", "**", "*", "`x.toml`", "\n\n```\nSnow\n```\n"],
    "ui/app.properties": ["# of the page\ngreeting=", "{0}", "%s"],
    "ui/messages.json": ['{"towns": "{n, plural, =0 {', "} one {", "} other {", '}}", "n": 1}\n'],
    "page.html": ['<html lang="zh"><p>', "<b>", "</b>", "</p><pre>Snow</pre></html>\n"],
}


def write_manual(folder: Path) -> None:
    for name, content in FILES.items():
        (folder / "manual" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "manual" / name).write_text(content)


def read(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("worker")
def test_files_come_back_translated_with_their_marks(machine: Machine, kvjobs: Kvjobs) -> None:
    write_manual(machine.folder)

    done = kvjobs("submit", "manual", "--wait", "-o", "manual.zh")

    assert done.exit_code == 0, done.err
    for name, kept in KEPT.items():
        found = (machine.folder / "manual.zh" / name).read_text()
        assert found != FILES[name]
        assert [part for part in kept if part not in found] == [], found
    branches = (machine.folder / "manual.zh" / "ui/messages.json").read_text().split("{")[3:]
    assert [branch.count("#") for branch in branches] == [0, 1, 1]  # and no brace more: the message is whole


@pytest.mark.parametrize(("point", "written"), [("in-written-file", 0), ("after-written-file", 1)])
def test_a_worker_and_then_the_command_are_killed_and_the_same_command_again_writes_all(
    machine: Machine, kvjobs: Kvjobs, point: str, written: int
) -> None:
    """No file is there in part: it is as it was, or as it will be."""
    write_manual(machine.folder)
    command = ("submit", "manual", "--wait", "-o", "manual.zh")
    (machine.folder / "manual.zh/ui").mkdir(parents=True)
    (machine.folder / "manual.zh/index.md").write_text("before")
    log = str(machine.home / "hits")

    killed = machine.kvjobs(*command, KVJOBS_FAILPOINTS=f"after-compute:kill,{point}:kill", KVJOBS_FAILPOINTS_LOG=log)
    left = {name: content for name, content in read(machine.folder / "manual.zh").items() if ".part" not in name}
    done = machine.kvjobs(*command)

    assert kvjobs("export", "last", "-o", "clean.zh").exit_code == 0
    expected = read(machine.folder / "clean.zh")
    assert (killed.returncode, done.returncode) == (-9, 0), done.stderr
    assert {hit for hit in Path(log).read_text().split() if ":" in hit} == {"after-compute:kill", f"{point}:kill"}
    assert sum(content == expected[name] for name, content in left.items()) == written
    assert all(content in (expected[name], b"before") for name, content in left.items())
    assert read(machine.folder / "manual.zh") == expected
    assert machine.ask("select count(*), sum(succeeded) from job_counts") == [(1, machine.succeeded())]
