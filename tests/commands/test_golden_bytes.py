"""What `jobs` shows and writes has the bytes that it had: every format, page and command, of jobs of every kind."""

from pathlib import Path

import pytest

from tests.golden.bytes.digests import digest, make_outputs, stored_digests, write_outputs
from tests.repetition import LONG

SEE = """{number} outputs differ from what is stored: {names}
They are in {folder}. To see the difference, write those of the commit before, and compare:
    git worktree add /tmp/before main && (cd /tmp/before && python -m tests.golden.bytes write /tmp/expected)
    diff -r /tmp/expected {folder}
Where the change is meant, store the new digests: python -m tests.golden.bytes make"""


@pytest.mark.parametrize("dialect", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def test_every_output_has_the_bytes_that_it_had(dialect: str, tmp_path: Path) -> None:
    """On PostgreSQL each query; the further forms of its rows, which no database writes, in the long form."""
    is_whole = dialect == "sqlite" or bool(LONG)
    (home := tmp_path / "home").mkdir()
    expected, found = stored_digests(dialect), make_outputs(dialect, home, is_whole=is_whole)
    if not is_whole:
        expected = {name: one for name, one in expected.items() if name in found}

    differing = {name: content for name, content in found.items() if expected.get(name) != digest(content)}
    write_outputs(differing, folder := tmp_path / "found")
    names = [*differing, *(f"{name} (missing)" for name in expected.keys() - found.keys())]
    assert not names, SEE.format(number=len(names), names="; ".join(names[:20]), folder=folder)
