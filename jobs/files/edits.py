"""A file's text with edits in it; all else stays as it is.

Knows: positions, encodings. Does not know: formats, units.
"""

from collections.abc import Iterable
from operator import itemgetter

from jobs.documents import quoted
from jobs.errors import SpecError
from jobs.files.markup.encodings import encoded

Edit = tuple[int, int, str]  # from one position to another: this text


def edited_bytes(text: str, edits: Iterable[Edit], encoding: str) -> bytes:
    """The bytes of a file with these edits. Raises SpecError for half of a character."""
    whole = edited(text, edits)
    try:
        return encoded(whole, encoding)
    except UnicodeEncodeError as error:
        raise SpecError(f"{quoted(whole[error.start : error.start + 1])} is no character") from error


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with these edits, which do not overlap. Those of one position stay in their order."""
    pieces, at = [], 0
    for start, stop, other in sorted(edits, key=itemgetter(0)):
        pieces += [text[at:start], other]
        at = stop
    return "".join([*pieces, text[at:]])
