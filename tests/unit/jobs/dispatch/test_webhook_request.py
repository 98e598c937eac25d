"""To which addresses a webhook connects: with a name server of the test, and before any connection."""

import socket
from collections.abc import Callable
from typing import Any

import pytest

from jobs.dispatch import webhook_request
from jobs.dispatch.webhook_request import WebhookError, post


def answering(*addresses: str) -> Callable[..., list[tuple[Any, ...]]]:
    """A name server with this one answer."""
    return lambda host, port, **_: [(0, 0, 0, "", (address, port)) for address in addresses]


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses to which a connection was tried; none can be made."""
    tried: list[str] = []

    def refuse(where: tuple[str, int], timeout: float) -> None:
        tried.append(where[0])
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", refuse)
    return tried


def send(url: str, *addresses: str, **how: Any) -> None:
    with pytest.raises(WebhookError):
        post(url, {}, b"{}", resolve=answering(*addresses), **how)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.3", "169.254.169.254", "::1", "fe80::1", "::ffff:127.0.0.1"])
def test_a_name_that_leads_to_a_private_network_is_not_connected_to(connected: list[str], address: str) -> None:
    send("https://rebound.example/", address)
    assert connected == []

    send("https://rebound.example/", address, allow_private=True)
    assert connected == [address]


def test_of_several_addresses_only_public_ones_are_tried_each_looked_up_once(connected: list[str]) -> None:
    looked_up: list[str] = []

    def resolve(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        looked_up.append(host)
        return answering("10.0.0.3", "8.8.8.8", "1.1.1.1")(host, port)

    with pytest.raises(WebhookError, match="refused"):
        post("https://a.example/", {}, b"{}", resolve=resolve)

    assert connected == ["8.8.8.8", "1.1.1.1"]
    assert looked_up == ["a.example"], "a name server that answers otherwise the second time is not asked"


def test_http_goes_to_this_machine_alone_whatever_its_name_leads_to(connected: list[str]) -> None:
    send("http://localhost:9/", "8.8.8.8")
    send("http://localhost:9/", "10.0.0.1", allow_private=True)
    assert connected == []

    send("http://localhost:9/", "127.0.0.1")
    assert connected == ["127.0.0.1"]


def test_a_name_without_an_address_is_a_sentence() -> None:
    def fail(*_: Any, **__: Any) -> list[tuple[Any, ...]]:
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(WebhookError, match=r"nowhere\.example has no address"):
        post("https://nowhere.example/", {}, b"{}", resolve=fail)


def test_an_attempt_is_shorter_than_its_claim() -> None:
    from jobs.store.webhooks import CLAIM_S

    assert webhook_request.MOST_S * 2 < CLAIM_S
