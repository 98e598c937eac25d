"""A TCP proxy between a program and a server, with which a test simulates failures of the network."""

import contextlib
import socket
import threading
import time
from typing import Self

READ_BYTES = 1 << 16
LOOK_EVERY_S = 0.05
SSL_REQUEST = bytes.fromhex("0000000804d2162f")  # the first message of a PostgreSQL client that may use TLS


class Proxy:
    """Listens on a port of its own and forwards to `target_port` of this machine."""

    def __init__(self, target_port: int) -> None:
        self._target = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._refusing = False
        self._swallowing = False
        self._forgotten: set[socket.socket] = set()  # both ends of each connection
        self._cutting_handshakes = False
        self._delay_s = 0.0
        self._marker = b""
        self._cuts_left = 0
        self._answer_bytes = 0  # of an answer that is cut off in its middle
        self.cuts = 0  # number of answers that were cut off so far
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._listener.close()
        self._close_all()
        for end in self._forgotten:
            end.close()

    def drop(self) -> None:
        """Close every connection, and each new one at once, until `heal`."""
        self._refusing = True
        self._close_all()

    def swallow(self) -> None:
        """Half-open: accept connections and bytes, forward nothing in either direction, until `heal`."""
        self._swallowing = True

    def forget(self) -> None:
        """`swallow`; and what was connected before stays half-open for good, also after `heal`."""
        with self._lock:
            self._forgotten |= {end for pair in self._pairs for end in pair}
            self._pairs.clear()
        self._swallowing = True

    def cut_handshakes(self) -> None:
        """Close every connection. Answer yes to each new one that asks PostgreSQL for TLS, and close it in the
        middle of the handshake, until `heal`."""
        self._cutting_handshakes = True
        self._close_all()

    def delay(self, seconds: float) -> None:
        """Delay everything by this number of seconds, until `heal`."""
        self._delay_s = seconds

    def cut_after(self, marker: bytes, times: int = 1) -> None:
        """Forward a client's message that contains `marker`, and close its connection before the answer arrives; the
        first `times` times. The server has executed the request; the client cannot know."""
        with self._lock:
            self._marker, self._cuts_left, self._answer_bytes = marker, times, 0

    def cut_within(self, num_bytes: int, times: int = 1) -> None:
        """Forward about this number of bytes of what the server sends through a connection, and close it; the first
        `times` times."""
        with self._lock:
            self._marker, self._cuts_left, self._answer_bytes = b"", times, num_bytes

    def heal(self) -> None:
        """Forward everything again. Bytes that were swallowed are lost, so their connections are closed."""
        if self._swallowing:
            self._close_all()
        self._refusing = self._swallowing = self._cutting_handshakes = False
        self._delay_s = 0.0
        with self._lock:
            self._marker, self._cuts_left, self._answer_bytes = b"", 0, 0

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            if self._refusing:
                client.close()
                continue
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        while self._swallowing:
            time.sleep(LOOK_EVERY_S)
        try:
            server = socket.create_connection(("127.0.0.1", self._target), timeout=5)
        except OSError:
            client.close()  # the server does not answer
            return
        server.settimeout(None)
        pair = (client, server)
        with self._lock:
            self._pairs.append(pair)
        threading.Thread(target=self._forward, args=(client, server, pair, True), daemon=True).start()
        self._forward(server, client, pair, False)

    def _forward(
        self, source: socket.socket, sink: socket.socket, pair: tuple[socket.socket, socket.socket], asks: bool
    ) -> None:
        num_bytes = 0
        with contextlib.suppress(OSError):
            while data := source.recv(READ_BYTES):
                num_bytes += len(data)
                if self._delay_s:
                    time.sleep(self._delay_s)
                if self._swallowing or source in self._forgotten:
                    continue
                if self._cutting_handshakes and data == SSL_REQUEST:
                    source.sendall(b"S")
                    source.recv(READ_BYTES)
                    break
                if not asks and self._should_cut_answer(num_bytes):
                    sink.sendall(data[: len(data) // 2])
                    break
                if asks and self._should_cut(data):
                    self._cut(pair, data)
                    return
                sink.sendall(data)
        self._close(pair)

    def _should_cut_answer(self, num_bytes: int) -> bool:
        with self._lock:
            if not (self._cuts_left and self._answer_bytes and num_bytes > self._answer_bytes):
                return False
            self._cuts_left -= 1
            self.cuts += 1
            return True

    def _should_cut(self, data: bytes) -> bool:
        with self._lock:
            if not self._cuts_left or not self._marker or self._marker not in data:
                return False
            self._cuts_left -= 1
            self.cuts += 1
            return True

    def _cut(self, pair: tuple[socket.socket, socket.socket], data: bytes) -> None:
        """Close the client's half first, so that no answer gets through; the server's 0.2 s after the request."""
        client, server = pair
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            server.sendall(data)
            time.sleep(0.2)
        self._close(pair)

    def _close_all(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            self._close(pair)

    def _close(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._lock:
            if pair in self._pairs:
                self._pairs.remove(pair)
        for end in pair:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # close alone does not wake a thread that reads
            end.close()
