"""What the first bytes of a file say: its compression, UTF-16 or UTF-32, or that it is another program's file.

Knows: bytes. Does not know: names of files, streams.
"""

import re

HEAD_BYTES = 265  # as far as the name of tar's format

# None of these can start a text in UTF-8: what follows their letters are control characters, or the digits of pi.
_PACKINGS = {
    rb"\x1f\x8b": "gzip",
    rb"\x28\xb5\x2f\xfd": "zstd",
    rb"\xfd7zXZ\x00": "xz",
    rb"BZh[1-9](1AY&SY|\x17rE8P\x90)": "bzip2",
}
_UTF_32 = {b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff"}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# Where the zero bytes of two ASCII characters are. (Half of a text that begins otherwise is in the same place, but this
# is a hint, not a detector.)
_WITHOUT_MARK = {
    (False, True, True, True): "utf-32-le",
    (True, True, True, False): "utf-32-be",
    (False, True, False, True): "utf-16-le",
    (True, False, True, False): "utf-16-be",
}
_FOREIGN = {
    rb"PK\x03\x04": "a zip archive, as .xlsx and .ods are; unpack it, or save its table as csv",
    rb"7z\xbc\xaf\x27\x1c": "a 7z archive; unpack it",
    rb"\x04\x22\x4d\x18": "compressed with lz4; unpack it, or compress it as .zst",
    rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an old Excel or Word file; save it as csv, or as text",
    rb"PAR1[\x00-\x1f]": "a parquet file: --format parquet",
    rb"ARROW1\x00\x00": "an Arrow (Feather) file; write it as parquet",
    rb"SQLite format 3\x00": "a SQLite database; write its table as csv or jsonl",
    rb"[\s\S]{257}ustar[\x00 ]": "a tar archive; unpack it, and submit its folder",
}


def packing_in(head: bytes) -> str | None:
    """The compression that the first bytes of a file show."""
    return _found(_PACKINGS, head)


def encoding_in(head: bytes) -> str | None:
    """The name of UTF-16 or UTF-32, where the first bytes of a text show one of them, as Python knows it."""
    start = head[:4]
    if start in _UTF_32:
        return "utf-32"
    if start.startswith(_UTF_16):
        return "utf-16"
    return _WITHOUT_MARK.get(tuple(byte == 0 for byte in start))  # type: ignore[arg-type]  # shorter ones are not there


def foreign_file(head: bytes) -> str | None:
    """What a file is that is no corpus, and what to do with it."""
    return _found(_FOREIGN, head)


def _found(signatures: dict[bytes, str], head: bytes) -> str | None:
    return next((name for signature, name in signatures.items() if re.match(signature, head)), None)
