"""What Celery says of each hint is for debugging."""

import logging

import pytest

from worker.fleet.hint_exchange import log_as_debug


@pytest.mark.parametrize(("level", "shown"), [(logging.INFO, False), (logging.WARNING, True), (logging.ERROR, True)])
def test_celerys_line_a_hint_is_for_debugging_and_its_warnings_are_not(
    monkeypatch: pytest.MonkeyPatch, level: int, shown: bool
) -> None:
    record = logging.LogRecord("celery.app.trace", level, "", 1, "Task kvjobs.drain succeeded", (), None)
    monkeypatch.setattr(logging.getLogger(), "level", logging.INFO)

    assert log_as_debug(record) is shown
