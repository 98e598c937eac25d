"""The text of a condition cut into tokens."""

import re
from dataclasses import dataclass

from jobs.errors import SpecError

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")*")
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<word>[^\W\d]\w*)
      | (?P<forbidden>--|/\*)
      | (?P<sign>->>|->|<>|!=|==|<=|>=|\|\||[-+*/%<>=(),.])
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind == "word" else ""

    @property
    def sign(self) -> str:
        return self.text if self.kind == "sign" else ""


END = Token("end", "")


def split_tokens(source: str) -> list[Token]:
    """The tokens of a condition. Raises SpecError for characters that no condition has."""
    found, at, source = [], 0, source.rstrip()
    if "\0" in source or any("\ud800" <= sign <= "\udfff" for sign in source):
        raise SpecError("--where holds bytes that are not UTF-8")
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None or match.lastgroup in (None, "forbidden"):
            raise SpecError(f"--where cannot hold {source[at:].lstrip()[:10]!r}; write texts in single quotes")
        found.append(Token(str(match.lastgroup), match[str(match.lastgroup)]))
        at = match.end()
    return found
