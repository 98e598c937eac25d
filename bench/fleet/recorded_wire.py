"""What connections to PostgreSQL send, recorded, and sent again by any number of them at once.

A connection's stream is a list of turns: bytes that it sends, then what ends the server's answer (ReadyForQuery, or
CopyInResponse, after which the client sends rows): postgresql.org/docs/15/protocol-flow.html.

Knows: the protocol's framing. Does not know: SQL, workers.
"""

import heapq
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

READY, COPY_IN, ERROR = b"Z", b"G", b"E"
LARGE = 1 << 18


@dataclass(slots=True)
class Turn:
    """Bytes of the client, and the type of the message that ends the server's answer."""

    sent: bytes
    ends_with: bytes


@dataclass(slots=True)
class Call:
    """Turns `first` to `behind` - 1 of a stream are one call of this name."""

    name: str
    first: int
    behind: int


@dataclass(slots=True)
class Stream:
    """All that one connection sends."""

    turns: list[Turn] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    every_s: float = 0.0  # where it is not 0, the last call is sent anew this often, from a moment within that time on


class Recorder:
    """A proxy before a server: each connection through it is a stream."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.streams: list[Stream] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            stream = Stream()
            self.streams.append(stream)
            threading.Thread(target=self._pass_on, args=(client, stream), daemon=True).start()

    def _pass_on(self, client: socket.socket, stream: Stream) -> None:
        with client, socket.create_connection(("127.0.0.1", self._server_port)) as server:
            asked, answered = bytearray(), bytearray()
            while True:
                for side in select.select([client, server], [], [])[0]:
                    data = side.recv(LARGE)
                    if not data:
                        return
                    if side is client:
                        asked += data
                        server.sendall(data)
                        continue
                    answered += data
                    if (end := _end_of_answer(answered)) is not None:
                        stream.turns.append(Turn(bytes(asked), end))
                        asked.clear()
                        answered.clear()
                    client.sendall(data)


def _end_of_answer(answered: bytearray) -> bytes | None:
    """The type of the last message where the answer is whole and ends a turn. Raises ValueError for an error."""
    at, kind = 0, b""
    while at + 5 <= len(answered):
        kind = bytes(answered[at : at + 1])
        if kind == ERROR:
            raise ValueError(f"the server refused: {bytes(answered[at:])!r}")
        at += 1 + int.from_bytes(answered[at + 1 : at + 5], "big")
    return kind if at == len(answered) and kind in (READY, COPY_IN) else None


@dataclass(slots=True)
class Sent:
    """What was sent again: of each call its name, when it ended (`time.monotonic`), and its seconds."""

    calls: list[tuple[str, float, float]]
    cpu_s: float


class _Sender:
    """One connection that sends a stream again."""

    def __init__(self, port: int, stream: Stream) -> None:
        self.stream = stream
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.turn = self.call = 0
        self.began = 0.0
        self._tail = b""

    def send(self) -> None:
        calls = self.stream.calls
        if self.call < len(calls) and calls[self.call].first == self.turn:
            self.began = time.monotonic()
        self._tail = b""
        self.socket.sendall(self.stream.turns[self.turn].sent)

    def has_answer(self) -> bool:
        """Read what there is; whether the turn is over. Of an answer only the end is looked at."""
        data = self.socket.recv(LARGE)
        if not data:
            raise ConnectionError("the server closed a connection")
        end = self._tail + data
        self._tail = end[-64:]
        if self.stream.turns[self.turn].ends_with == COPY_IN:
            return b"G\0\0\0" in end
        return end[-6:-1] == b"Z\0\0\0\5"


def send_again(port: int, streams: Iterable[Stream], phase: Callable[[], float]) -> Sent:
    """Send all streams at once, each turn when the answer before has come, until those without a period are at their
    end. `phase`: when within its period a stream with one begins, from 0 to 1."""
    senders = [_Sender(port, stream) for stream in streams]
    for sender in senders:  # connected before the clock runs
        while not sender.turn:
            sender.send()
            while not sender.has_answer():
                pass
            sender.turn += 1
    by_number = {sender.socket.fileno(): sender for sender in senders}
    poll = select.epoll()
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    done: list[tuple[str, float, float]] = []
    later: list[tuple[float, int]] = []
    left, began, cpu = 0, time.monotonic(), time.process_time()
    for number, sender in by_number.items():
        if sender.stream.every_s:
            heapq.heappush(later, (began + phase() * sender.stream.every_s, number))
        else:
            left += 1
            sender.send()
    while left:
        for number, _ in poll.poll(0.05 if later else 1.0):
            sender = by_number[number]
            if not sender.has_answer():
                continue
            stream, now = sender.stream, time.monotonic()
            sender.turn += 1
            call = stream.calls[sender.call] if sender.call < len(stream.calls) else None
            if call is not None and sender.turn == call.behind:
                done.append((call.name, now, now - sender.began))
                sender.call += 1
            if sender.turn < len(stream.turns):
                sender.send()
            elif stream.every_s:
                sender.call -= 1
                sender.turn = stream.calls[sender.call].first
                heapq.heappush(later, (sender.began + stream.every_s, number))
            else:
                left -= 1
        while later and later[0][0] <= time.monotonic():
            by_number[heapq.heappop(later)[1]].send()
    for sender in senders:
        sender.socket.close()
    return Sent(done, time.process_time() - cpu)
