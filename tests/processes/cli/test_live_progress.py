"""The progress line on a terminal: its width, the names in it, and messages above it."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from jobs.store.schema.states import DocumentStatus
from tests.databases import ON_SQLITE
from tests.messages import line_with
from tests.rows import AddJob, Line


@ON_SQLITE
def test_control_characters_in_a_name_cannot_leave_the_progress_line(home: Path, add_job: AddJob) -> None:
    job = add_job(Line("a", "甲"), name="\x1b]0;title\x07[bold]")

    shown = in_a_terminal("watch", str(job))

    assert r"job 1 (\x1b]0;title\x07[bold])" in shown
    assert line_with(shown, "1/1 ", "100.0 %", "10 tokens")
    assert "\x1b]0" not in shown
    assert "\x1b[3" not in shown  # NO_COLOR


@ON_SQLITE
def test_a_narrow_terminal_drops_whole_parts_and_never_cuts_a_number(home: Path, add_job: AddJob) -> None:
    rejected = [Line(None, status=DocumentStatus.REJECTED, text=None) for _ in range(12)]
    job = add_job(*(Line(f"d{number}", "译") for number in range(120)), *rejected, name="a-name-of-forty-letters-or-so")

    shown = in_a_terminal("watch", str(job), columns=52)

    assert "…" not in shown
    assert re.search(r"job 1 ━+ 120/120 documents \(100\.0 %\), 12 rejected\r", shown)


def test_a_message_is_printed_above_the_progress_line() -> None:
    code = (
        "from jobs.cli.render import live_progress, messages\n"
        "with live_progress.progress() as shown: messages.print_message('a message')"
    )

    assert "\x1b[2Ka message\r\n" in in_a_terminal(code=code).replace(" \r\n", "\r\n")


def in_a_terminal(*arguments: str, columns: int = 120, code: str = "") -> str:
    """What `kvjobs`, or this code, writes to a terminal of this width."""
    terminal, stream = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code] if code else [sys.executable, "-m", "jobs.cli.main", *arguments],
        stdin=stream,
        stdout=stream,
        stderr=stream,
        env=os.environ | {"TERM": "xterm", "COLUMNS": str(columns), "NO_COLOR": "1"},
    )
    os.close(stream)
    written = b""
    while True:
        try:
            written += os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
    os.close(terminal)
    process.wait()
    return written.decode()
