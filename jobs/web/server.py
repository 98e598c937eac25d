"""Serving the dashboard from this process, until it is interrupted."""

import contextlib
import ipaddress
import signal
import socket

import uvicorn
from fastapi import FastAPI
from uvicorn.config import LOGGING_CONFIG

from jobs.errors import SpecError
from jobs.text.log_lines import is_json_log
from jobs.web.connections import Limits, protocol

BACKLOG = 100  # visitors who come before the server is ready wait instead of being refused


class _Terminated(BaseException):
    """SIGTERM, by which a service is stopped."""


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens, so that a port in use is known before anything else happens. Raises SpecError."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise SpecError(f"{host!r} is not an address of this machine: {error.strerror}") from None
    bound = socket.socket(family, kind, protocol)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(where)
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise SpecError(
            f"port {port} of {host} cannot be used: {error.strerror}; choose another with --port (0: any free one)"
        ) from None
    return bound


def serve(app: FastAPI, bound: socket.socket) -> None:
    """Answer requests until SIGINT or SIGTERM; open pages are then closed at once. Returns after SIGTERM; after SIGINT
    raises KeyboardInterrupt."""

    def terminate(*_: object) -> None:
        raise _Terminated

    # uvicorn closes its connections, and then raises the signal once more. By default that would end the process at
    # once, with the code of a failure and before the caller's blocks are left.
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        with contextlib.suppress(_Terminated):
            make_server(app, Limits()).run(sockets=[bound])
    finally:
        signal.signal(signal.SIGTERM, before)


def make_server(app: FastAPI, limits: Limits) -> uvicorn.Server:
    """The server of an application. Not more than its limits: it speaks HTTP/1.1 alone. Where this process logs JSON,
    so does the server."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None if is_json_log() else LOGGING_CONFIG,
            http=protocol(limits),
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=limits.quiet_s,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=32 * 1024,
        )
    )
