"""Who says nothing, or says it slowly, keeps nobody out: over sockets."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
from fastapi import FastAPI, Form, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from jobs.web import guards
from jobs.web.connections import Limits
from jobs.web.guards import Guards
from jobs.web.server import listen, make_server

FEW = Limits(asking=4, asking_of_a_peer=4, reserve=2, head_s=60)
QUICK = Limits(head_s=0.2, stalled_s=0.5)


class Served:
    """A server in a thread of this process: one page that answers, one that waits, one that is long, one form."""

    def __init__(self, limits: Limits) -> None:
        app = FastAPI()
        self.go_on = threading.Event()
        self.asked = threading.Semaphore(0)

        @app.get("/healthz")
        @app.get("/page")
        def page() -> Response:
            return PlainTextResponse("a page")

        @app.get("/waits")
        def waits() -> Response:
            self.asked.release()
            self.go_on.wait(30)
            return PlainTextResponse("at last")

        @app.get("/long")
        def long() -> Response:
            return StreamingResponse(iter([b"x" * (1 << 20)] * 64))

        @app.post("/form")
        async def form(request: Request, word: str = Form("")) -> Response:
            return PlainTextResponse(word)

        app.add_middleware(Guards)
        self._bound = listen("127.0.0.1", 0)
        self._server = make_server(app, limits)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._bound]})

    def connect(self) -> socket.socket:
        return socket.create_connection(self._bound.getsockname(), timeout=20)

    def ask(self, path: str) -> str:
        """The status line of an answer over a new connection, or an empty text where it was closed."""
        with self.connect() as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            return status_of(connection)

    @property
    def num_connections(self) -> int:
        return len(self._server.server_state.connections)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.go_on.set()
        self._server.should_exit = True
        self._thread.join(timeout=20)


@contextmanager
def served(limits: Limits) -> Iterator[Served]:
    server = Served(limits)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def status_of(connection: socket.socket) -> str:
    try:
        return connection.recv(1 << 16).split(b"\r\n")[0].decode()
    except ConnectionError:
        return ""


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has ended the connection; waits for a moment."""
    connection.settimeout(5)
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def has_ended(connection: socket.socket) -> bool:
    """Send a byte; whether the other side no longer takes it."""
    try:
        connection.sendall(b"x")
    except ConnectionError:
        return True
    return False


def wait_until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.01)


def test_silent_connections_keep_nobody_out() -> None:
    with served(FEW) as server, ExitStack() as open_ones:
        silent = [open_ones.enter_context(server.connect()) for _ in range(50)]
        for path in ("/page", "/healthz", "/page"):
            assert server.ask(path) == "HTTP/1.1 200 OK"
        assert server.num_connections <= 6
        assert is_closed(silent[0]), "the oldest gave way"


def test_a_half_request_is_a_silent_one() -> None:
    with served(FEW) as server, ExitStack() as open_ones:
        for _ in range(50):
            open_ones.enter_context(server.connect()).sendall(b"GET /page HTTP/1.1\r\nX-Slow: ")
        assert server.ask("/page") == "HTTP/1.1 200 OK"


def test_where_all_places_are_taken_health_is_told_and_others_come_again() -> None:
    with served(FEW) as server, ExitStack() as open_ones:
        asking = [open_ones.enter_context(server.connect()) for _ in range(4)]
        for connection in asking:
            connection.sendall(b"GET /waits HTTP/1.1\r\nHost: here\r\n\r\n")
            assert server.asked.acquire(timeout=20)
        for _ in range(10):
            open_ones.enter_context(server.connect())

        assert server.ask("/page") == "HTTP/1.1 503 Service Unavailable"
        assert server.ask("/healthz") == "HTTP/1.1 200 OK"
        server.go_on.set()
        assert [status_of(connection) for connection in asking] == ["HTTP/1.1 200 OK"] * 4
        wait_until(lambda: server.ask("/page") == "HTTP/1.1 200 OK")


@pytest.mark.parametrize("sent", [b"", b"GET /page HT", b"GET /page HTTP/1.1\r\nHost: here\r\n"])
def test_a_connection_that_asks_nothing_in_time_is_ended(sent: bytes) -> None:
    with served(QUICK) as server, server.connect() as connection:
        connection.sendall(sent)
        assert is_closed(connection)


def test_a_byte_now_and_then_does_not_buy_time() -> None:
    with served(QUICK) as server, server.connect() as connection:
        connection.sendall(b"GET /page HTTP/1.1\r\nHost: here\r\nX-Slow: ")
        until = time.monotonic() + 20
        while not has_ended(connection):
            assert time.monotonic() < until
            time.sleep(0.02)


def test_a_second_request_has_its_own_time() -> None:
    with served(QUICK) as server, server.connect() as connection:
        for _ in range(2):
            connection.sendall(b"GET /page HTTP/1.1\r\nHost: here\r\n\r\n")
            answer = connection.recv(1 << 16)
            while not answer.endswith(b"a page"):
                answer += connection.recv(1 << 16)
            time.sleep(0.3)  # longer than a head may take: it is quiet, which it may be
        connection.sendall(b"GET /pa")
        assert is_closed(connection)


def test_a_form_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "FORM", replace(guards.FORM, seconds=0.2))
    with served(Limits()) as server, server.connect() as connection:
        form = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nword="
        connection.sendall(b"POST /form HTTP/1.1\r\nHost: here\r\n" + form)
        assert status_of(connection).startswith("HTTP/1.1 408")


def test_an_answer_that_nobody_reads_ends() -> None:
    with served(QUICK) as server, server.connect() as connection:
        connection.sendall(b"GET /long HTTP/1.1\r\nHost: here\r\n\r\n")
        wait_until(lambda: server.num_connections == 0)
        assert server.ask("/page") == "HTTP/1.1 200 OK"


def test_an_answer_that_is_read_slowly_is_whole() -> None:
    with served(QUICK) as server, server.connect() as connection:
        connection.sendall(b"GET /long HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        got = 0
        while part := connection.recv(1 << 22):
            got += len(part)
            time.sleep(0.01)
        assert got > 64 << 20
