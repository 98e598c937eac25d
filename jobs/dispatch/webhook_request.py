"""One request of a webhook, to an address that was checked.

The name of the host is looked up once, and the connection goes to an address of that answer, so that a name server
cannot lead it elsewhere after the check (DNS rebinding). Redirects are not followed, and of the answer only its head is
read. `http.client` does this in few lines; a client with proxies, pools and redirects would have to be talked out of
them.
"""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from jobs.errors import KvjobsError
from jobs.webhook_address import is_public, is_this_machine

MOST_S = 20.0  # from the connection to the head of the answer
CONNECT_S = 5.0  # for one of several addresses
Resolve = Callable[..., Sequence[tuple[Any, ...]]]  # as socket.getaddrinfo


class WebhookError(KvjobsError):
    """The request could not be sent, or was not answered; the message says why."""


def post(
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    allow_private: bool = False,
    most_s: float = MOST_S,
    resolve: Resolve = socket.getaddrinfo,
) -> int:
    """Send the body; returns the status of the answer. `allow_private`: also to addresses of private networks. Raises
    WebhookError after `most_s` seconds, and for whatever else is no answer."""
    parts = urlsplit(url)
    is_tls, host = parts.scheme == "https", parts.hostname or ""
    port = parts.port or (443 if is_tls else 80)
    addresses = _allowed(host, port, is_tls, allow_private, resolve)
    until = time.monotonic() + most_s
    open_sockets: list[socket.socket] = []
    cut = threading.Timer(most_s, _cut, [open_sockets])
    cut.daemon = True
    cut.start()
    try:
        open_sockets.append(_connect(addresses, port, until))
        if is_tls:
            open_sockets.append(_tls(open_sockets[-1], host))
            open_sockets[-1].do_handshake()  # type: ignore[attr-defined]  # of an SSLSocket
        status = _ask(open_sockets[-1], parts.netloc, _target(parts.path, parts.query), headers, body)
        if time.monotonic() < until:
            return status
        raise TimeoutError  # the head was cut, and taken for its end
    except (OSError, http.client.HTTPException, ValueError) as error:
        if time.monotonic() >= until:
            raise WebhookError(f"{host} did not answer within {most_s:g} s") from None
        raise WebhookError(f"{host} cannot be asked: {_reason(error)}") from None
    finally:
        cut.cancel()
        for connected in open_sockets:
            with suppress(OSError):
                connected.close()


def _allowed(host: str, port: int, is_tls: bool, allow_private: bool, resolve: Resolve) -> list[str]:
    """The addresses of a host to which a connection may be made, in the order of the name server."""
    try:
        found = [str(info[4][0]) for info in resolve(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as error:
        raise WebhookError(f"{host} has no address: {_reason(error)}") from None
    if not is_tls:  # http is for this machine alone, whatever its name leads to
        return _some([address for address in found if is_this_machine(address)], host, "leads to another machine")
    if allow_private:
        return _some(found, host, "has no address")
    why = "leads to a private network; the setting notify_private allows these"
    return _some([address for address in found if is_public(address)], host, why)


def _some(addresses: list[str], host: str, why_none: str) -> list[str]:
    if not addresses:
        raise WebhookError(f"{host} {why_none}")
    return addresses


def _connect(addresses: Sequence[str], port: int, until: float) -> socket.socket:
    for address in addresses:
        left = max(0.1, until - time.monotonic())
        try:
            return socket.create_connection((address, port), timeout=min(CONNECT_S, left))
        except OSError as error:
            failed = error
    raise failed


def _cut(open_sockets: Sequence[socket.socket]) -> None:
    """End a connection that another thread waits for. Not by the method of an SSLSocket, which first takes its TLS
    apart."""
    for connected in open_sockets:
        with suppress(OSError):
            socket.socket.shutdown(connected, socket.SHUT_RDWR)


def _tls(connected: socket.socket, host: str) -> ssl.SSLSocket:
    context = ssl.create_default_context()
    return context.wrap_socket(connected, server_hostname=host, do_handshake_on_connect=False)


def _ask(connected: socket.socket, netloc: str, target: str, headers: Mapping[str, str], body: bytes) -> int:
    connected.settimeout(MOST_S)
    connection = http.client.HTTPConnection(netloc)
    connection.sock = connected
    connection.request("POST", target, body, {"host": netloc, "connection": "close", **headers})
    return connection.getresponse().status


def _target(path: str, query: str) -> str:
    return (path or "/") + (f"?{query}" if query else "")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
