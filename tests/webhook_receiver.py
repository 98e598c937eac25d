"""A receiver of webhooks: a real HTTP server of this process, on loopback, that answers as a test tells it to."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from standardwebhooks import Webhook

SECRET = "whsec_" + "c2VjcmV0IG9mIDMyIGJ5dGVzIGZvciB0aGUgdGVzdHM="  # base64 of "secret of 32 bytes for the tests"
STALL, CLOSE, DRIP = -1, -2, -3  # in place of a status: never answer, hang up, send the head byte by byte


@dataclass
class Receiver:
    """What came, and what is answered next."""

    url: str
    answers: list[int] = field(default_factory=list)  # of the next requests; behind them 204
    messages: list[tuple[dict[str, str], bytes]] = field(default_factory=list)  # headers with small letters, body
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.messages]

    def verified(self, index: int = 0) -> dict[str, object]:
        """A message, whose signature the library of the rules has verified."""
        headers, body = self.messages[index]
        found: dict[str, object] = Webhook(SECRET).verify(body, headers)
        return found


@contextmanager
def receiving(*answers: int, certificate: Path | None = None) -> Iterator[Receiver]:
    """`certificate`: with its key, for a receiver that speaks TLS."""
    receiver = Receiver("", list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.messages.append(({name.lower(): value for name, value in self.headers.items()}, body))
            answer = receiver.answers.pop(0) if receiver.answers else 204
            if answer == STALL:
                receiver.done.wait(60)
            elif answer == CLOSE:
                self.connection.shutdown(socket.SHUT_RDWR)
            elif answer == DRIP:
                self._drip()
            else:
                self.send_response(answer)
                if 300 <= answer < 400:
                    self.send_header("location", f"{receiver.url}/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

        def _drip(self) -> None:
            with suppress(OSError):
                self.wfile.write(b"HTTP/1.1 200 OK\r\nx: ")
                while not receiver.done.wait(0.1):
                    self.wfile.write(b"x")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    receiver.url = f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.done.set()
        server.shutdown()
        server.server_close()
        thread.join()
