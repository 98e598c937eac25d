"""What long work says on a terminal while it goes on."""

import logging
import sys

import pytest

from jobs.cli.render.reading_progress import logged_status


def test_what_is_logged_stands_on_the_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    log = logging.getLogger("some.work")

    with logged_status("some"):
        log.info("layer %d of %d", 3, 30)

    assert "3 of 30" in capsys.readouterr().err
    assert not caplog.records
    assert not logging.getLogger("some").handlers


def test_nothing_is_shown_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with logged_status("some"):
        logging.getLogger("some.work").info("layer %d of %d", 3, 30)

    assert capsys.readouterr().err == ""
