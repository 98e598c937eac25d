"""A folder of files through a worker: they come back translated, with their marks, and otherwise as they were."""

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


@pytest.mark.usefixtures("worker")
def test_files_come_back_translated_with_their_marks(machine: Machine, kvjobs: Kvjobs) -> None:
    for name, content in FILES.items():
        (machine.folder / "manual" / name).parent.mkdir(parents=True, exist_ok=True)
        (machine.folder / "manual" / name).write_text(content)

    done = kvjobs("submit", "manual", "--wait", "-o", "manual.zh")

    assert done.exit_code == 0, done.err
    for name, kept in KEPT.items():
        found = (machine.folder / "manual.zh" / name).read_text()
        assert found != FILES[name]
        assert [part for part in kept if part not in found] == [], found
    branches = (machine.folder / "manual.zh" / "ui/messages.json").read_text().split("{")[3:]
    assert [branch.count("#") for branch in branches] == [0, 1, 1]  # and no brace more: the message is whole
