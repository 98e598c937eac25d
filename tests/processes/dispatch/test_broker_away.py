"""A broker that does not answer costs seconds, not minutes."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.dispatch import broker
from jobs.dispatch.broker import BrokerError, make_app, send_hints, waiting_hints


@pytest.fixture
def silent_server() -> Iterator[str]:
    """Accepts every connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


@pytest.mark.parametrize("place", ["silent", "no socket", "no such host"])
def test_a_submit_with_an_unresponsive_broker_takes_a_few_seconds(
    silent_server: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "ANSWER_S", 0.4)
    urls = {
        "silent": silent_server,
        "no socket": f"redis+socket://{tmp_path}/redis.sock",
        "no such host": "redis://host.invalid/0",
    }
    app = make_app(urls[place])
    for call in (lambda: send_hints(app, "cpu", 3), lambda: waiting_hints(app, "cpu")):
        started = time.monotonic()
        with pytest.raises(BrokerError):
            call()
        assert time.monotonic() - started < 5
