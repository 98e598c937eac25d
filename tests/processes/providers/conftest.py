"""What tests of one provider share."""

from collections.abc import Iterator

import pytest

from tests.processes.providers.ollama_asked import STARTED
from worker.providers.http import client


@pytest.fixture
def ollama_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No request waits long before it is sent again, and the providers that a test has started are closed."""
    monkeypatch.setattr(client, "FIRST_PAUSE_S", 0.01)
    yield
    while STARTED:
        STARTED.pop().close()
