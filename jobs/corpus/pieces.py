"""Byte streams made of pieces, each as long as it comes: what io asks for is cut from them."""

import io


class PieceBytes(io.RawIOBase):
    """A stream over the pieces that `next_piece` gives, which are made of what `inner` has. Closing it closes that."""

    def __init__(self, inner: io.BufferedReader) -> None:
        self.inner = inner
        self._ready = memoryview(b"")  # of a piece, not yet returned

    def next_piece(self, wanted: int) -> bytes:
        """The next bytes; empty at the end. `wanted`: as many are asked for, but there may be more or fewer."""
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # io gives nothing else
        if not self._ready:
            self._ready = memoryview(self.next_piece(len(buffer)))
        taken = min(len(buffer), len(self._ready))
        buffer[:taken] = self._ready[:taken]
        self._ready = self._ready[taken:]
        return taken

    def close(self) -> None:
        self.inner.close()
        super().close()
