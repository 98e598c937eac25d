"""A zip of parts, as office programs write it: read within limits, and written with other contents of some parts.

Knows: zip. Does not know: what the parts are.
"""

import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from jobs.documents import quoted
from jobs.errors import CorpusError

MOST_PARTS = 20_000
LARGEST = 1 << 30  # bytes of all parts, unpacked
LARGEST_RATIO = 200  # of these to the file: deflate reaches 1032; a book of text has about 10, an empty sheet 50
ALWAYS_FINE = 10 << 20  # bytes

_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA}
_OTHER_METHODS = {9: "deflate64", 93: "zstd", 95: "xz", 98: "ppmd"}
_COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # of Microsoft's compound files, which encrypted ones are in, too
_MANIFEST = "META-INF/manifest.xml"  # of OpenDocument, which says what is encrypted
_ENCRYPTED = "the file is encrypted; save it without a password"


@dataclass(frozen=True, slots=True)
class ZipPackage:
    """A file that was read: what it says of its parts, not yet their contents."""

    content: bytes
    infos: tuple[zipfile.ZipInfo, ...]

    @classmethod
    def read(cls, content: bytes) -> "ZipPackage":
        """Raises CorpusError for what is no zip, is encrypted, or is out of all proportion when it is unpacked."""
        if content.startswith(_COMPOUND):
            raise CorpusError("the file is encrypted, or of Word before 2007; save it as .docx, without a password")
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                infos = tuple(archive.infolist())
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
            raise CorpusError(f"not a zip of parts, which it has to be ({error})") from error
        if any(info.flag_bits & 1 for info in infos):
            raise CorpusError(_ENCRYPTED)
        if (other := next((info for info in infos if info.compress_type not in _METHODS), None)) is not None:
            method = _OTHER_METHODS.get(other.compress_type, f"method {other.compress_type}")
            raise CorpusError(
                f"the part {quoted(other.filename)} is compressed by {method}, which is not read here; save the file "
                "again with an office program"
            )
        if len({info.filename for info in infos}) < len(infos):
            raise CorpusError("the file has two parts of one name; save it again with an office program")
        size = sum(info.file_size for info in infos)
        if len(infos) > MOST_PARTS or size > LARGEST or size > max(ALWAYS_FINE, LARGEST_RATIO * len(content)):
            raise CorpusError(
                f"unpacked, the file has {len(infos):,} parts and {size:,} bytes; the limits are {MOST_PARTS:,} parts, "
                f"{LARGEST:,} bytes and {LARGEST_RATIO} times the size of the file"
            )
        with _unpacking(), zipfile.ZipFile(io.BytesIO(content)) as archive:
            broken = archive.testzip()  # all of it now: it could not be written again
        if broken is not None:
            raise CorpusError(f"a part of the file is broken ({quoted(broken)}); save it again with an office program")
        package = cls(content, infos)
        if b"encryption-data" in package.parts({_MANIFEST}).get(_MANIFEST, b""):
            raise CorpusError(_ENCRYPTED)
        return package

    def parts(self, names: set[str]) -> dict[str, bytes]:
        """The contents of parts. Raises CorpusError for one that is broken. No more is unpacked than `read` has seen:
        zipfile stops at the size that a part says."""
        with _unpacking(), zipfile.ZipFile(io.BytesIO(self.content)) as archive:
            return {info.filename: archive.read(info) for info in self.infos if info.filename in names}

    def with_parts(self, changed: Mapping[str, bytes]) -> bytes:
        """The file with other contents of some parts; the others, their order, dates and ways of packing stay."""
        if not changed:
            return self.content
        others = self.parts({info.filename for info in self.infos} - set(changed))
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w") as archive:
            for info in self.infos:
                copy = zipfile.ZipInfo(info.filename, info.date_time)
                copy.compress_type, copy.external_attr = info.compress_type, info.external_attr
                copy.create_system, copy.comment = info.create_system, info.comment
                archive.writestr(copy, changed.get(info.filename, others.get(info.filename, b"")))
        return target.getvalue()


@contextmanager
def _unpacking() -> Iterator[None]:
    try:
        yield
    except (
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        MemoryError,  # a part packed by lzma says how much it needs
        NotImplementedError,
        EOFError,
        RuntimeError,
        OSError,
    ) as error:
        raise CorpusError(f"a part of the file is broken ({error})") from error
