"""The connections of the dashboard: how many there may be, of all and of one peer, and for how long one may be silent.

    quiet --head of a request--> asking --end of the answer--> quiet

A quiet connection gives way to a new one where all places are taken; one that asks is never cut for another. So
connections that say nothing keep nobody out, whether they are of one peer or of many.
"""

import asyncio
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

IS_CROWDED = "is_crowded"  # in the state of a request: the limit is reached by others, so only /healthz is answered


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many connections there may be, and how long each may take."""

    asking: int = 200  # requests of all visitors at a time; an open page holds one for its counters
    asking_of_a_peer: int = 100  # behind a proxy all visitors are one peer
    reserve: int = 20  # connections beyond these, to answer /healthz, and everybody else that the dashboard is full
    head_s: float = 10.0  # from the connection, or the first byte, to the end of a request's head
    quiet_s: int = 30  # between two requests
    stalled_s: float = 60.0  # without a byte of an answer read


class LimitedConnection(H11Protocol):
    """A connection that obeys the limits."""

    def __init__(self, *given: Any, limits: Limits, **named: Any) -> None:
        super().__init__(*given, **named)
        self._limits = limits
        self._late: asyncio.TimerHandle | None = None  # runs while the head of a request is awaited
        self._stalled: asyncio.TimerHandle | None = None  # runs while an answer waits to be read
        self._quiet_since = self.loop.time()
        self._peer = ""

    @property
    def is_asking(self) -> bool:
        """Whether a request is being answered, or its answer being read."""
        if self.cycle is None:
            return False
        return not self.cycle.response_complete or self.transport.get_write_buffer_size() > 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self._peer = peer_of(self.client)
        self._expect_head()
        limits = self._limits
        for group, allowed in ((self._siblings(), limits.asking_of_a_peer), (self._all(), limits.asking)):
            if len(group) > allowed + limits.reserve:
                self._make_room(group)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.is_asking:
            self._expect_head()
        elif self._late:
            self._late.cancel()
            self._late = None

    def handle_events(self) -> None:
        limits = self._limits
        is_crowded = (
            _num_asking(self._siblings(), self) >= limits.asking_of_a_peer
            or _num_asking(self._all(), self) >= limits.asking
        )
        self.app_state = {**self.app_state, IS_CROWDED: is_crowded}
        super().handle_events()

    def on_response_complete(self) -> None:
        self._quiet_since = self.loop.time()
        self._expect_reading()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled:
            self._stalled.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._late, self._stalled):
            if timer:
                timer.cancel()
        super().connection_lost(exc)

    def _all(self) -> "list[LimitedConnection]":
        return [connection for connection in self.connections if isinstance(connection, LimitedConnection)]

    def _siblings(self) -> "list[LimitedConnection]":
        return [connection for connection in self._all() if connection._peer == self._peer]

    def _make_room(self, group: "Iterable[LimitedConnection]") -> None:
        """End a quiet connection: the oldest that never sent a request, else the one that is quiet for longest; the new
        connection if none is quiet."""
        quiet = [connection for connection in group if connection is not self and not connection.is_asking]
        left = min(quiet, key=lambda connection: (connection.cycle is not None, connection._quiet_since), default=self)
        self.connections.discard(left)
        left.transport.abort()

    def _expect_head(self) -> None:
        self._late = self._late or self.loop.call_later(self._limits.head_s, self.transport.abort)

    def _expect_reading(self) -> None:
        if self._stalled:
            self._stalled.cancel()
        self._stalled = self.loop.call_later(self._limits.stalled_s, self._end_if_stalled)

    def _end_if_stalled(self) -> None:
        if self.transport.get_write_buffer_size() > 0:
            self.transport.abort()


def protocol(limits: Limits) -> Any:
    """The factory that uvicorn calls for each connection."""
    return partial(LimitedConnection, limits=limits)


def _num_asking(group: Iterable[LimitedConnection], without: LimitedConnection) -> int:
    return sum(connection.is_asking for connection in group if connection is not without)


def peer_of(client: tuple[str, int] | None) -> str:
    """The address by which visitors are told apart. Of IPv6 the network: a single host has 2^64 addresses in it."""
    if client is None:
        return "unknown"
    try:
        address = ipaddress.ip_address(client[0].partition("%")[0])
    except ValueError:
        return client[0]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
