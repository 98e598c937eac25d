"""How `kvjobs web` ends."""

import signal
from pathlib import Path

import httpx2

from tests.web_process import web_process


def test_a_dashboard_that_is_stopped_by_sigterm_exits_with_0(tmp_path: Path) -> None:
    with web_process(tmp_path) as web:
        assert httpx2.get(f"{web.address}/healthz", timeout=60).status_code == 200  # it serves

        web.process.send_signal(signal.SIGTERM)

        assert web.process.wait(timeout=60) == 0
