"""The header of a .po file: the fields in the translation of the empty msgid.

Knows: fields. Does not know: other entries.
"""

from jobs.files.gettext.entries import Entry, Message
from jobs.files.gettext.strings import escaped

NEW = {"MIME-Version": "1.0", "Content-Type": "text/plain; charset=UTF-8", "Content-Transfer-Encoding": "8bit"}


def header_of(entries: list[Entry]) -> Message | None:
    for entry in entries:
        found = entry.message("msgid")
        if found is not None and not found.text and entry.message("msgctxt") is None:
            return entry.translations[0]
    return None


def fields_of(header: Message | None) -> dict[str, str]:
    pairs = (line.partition(":") for line in (header.text if header else "").split("\n"))
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def new_header(fields: dict[str, str], line_end: str) -> str:
    """The entry of a file that has none."""
    lines = [f'"{name}: {escaped(value)}\\n"' for name, value in {**NEW, **fields}.items()]
    return line_end.join(['msgid ""', 'msgstr ""', *lines, "", ""])


def replaced(text: str, header: Message, fields: dict[str, str], line_end: str) -> str:
    """The strings of the header with these fields, from the first quotation mark on. All other strings stay as they
    are, if each field begins a string of its own, which all tools write."""
    own_strings = all(part.count("\n") == 0 or part.find("\n") == len(part) - 1 for _, _, part in header.strings)
    if not own_strings:
        return _again(header, fields, line_end)
    start = header.strings[0][0]
    pieces, at, left, skip = [], start, dict(fields), False
    begins = True
    for begin, end, part in header.strings:
        name = part.partition(":")[0].strip()
        if begins and name in left:
            pieces += [text[at:begin], f'"{name}: {escaped(left.pop(name))}\\n"']
            at, skip = end, True
        elif skip and not begins:
            at = end  # the rest of a field over several strings
        else:
            skip = False
        begins = part.endswith("\n") or not part
    pieces.append(text[at : header.stop])
    gap = "" if begins else "\\n"
    for name, value in left.items():
        pieces.append(f'{line_end}"{gap}{name}: {escaped(value)}\\n"')
        gap = ""
    return "".join(pieces)


def _again(header: Message, fields: dict[str, str], line_end: str) -> str:
    left = dict(fields)
    lines = []
    for line in header.text.split("\n"):
        name = line.partition(":")[0].strip()
        lines.append(f"{name}: {left.pop(name)}" if ":" in line and name in left else line)
    lines = [*[line for line in lines if line], *(f"{name}: {value}" for name, value in left.items())]
    return line_end.join(['""', *(f'"{escaped(line)}\\n"' for line in lines)])
