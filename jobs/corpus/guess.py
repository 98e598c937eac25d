"""Hints for a corpus without a document: what the user probably meant, ending in the option to type.

Knows: the first lines, and the fields that are missing in them. Does not know: files, jobs.
"""

import csv
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from jobs.corpus.field_path import field_paths
from jobs.documents import quoted
from jobs.text.json_numbers import read_exactly

# Fields that hold the text in published corpora, the most likely first.
TEXT_FIELDS = (
    *("text", "content", "contents", "raw_content", "body", "sentence", "source", "src", "document", "doc", "passage"),
    *("paragraph", "article", "abstract", "review", "description", "message", "comment", "post", "tweet", "utterance"),
    *("input", "prompt", "instruction", "question", "query", "title"),
)
PAIRS = (("source", "target"), ("src", "tgt"), ("src", "trg"), ("src", "mt"), ("source", "translation"))
DELIMITERS = {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}
FORMATS = {",": "csv", "\t": "tsv"}


def guess_by_lines(lines: Sequence[bytes], fields: Mapping[str, str]) -> str | None:
    """A hint for lines that were read as JSON Lines. `fields`: the payload's fields by role."""
    objects = list(_objects(lines))
    if not objects:
        return _guess_format(lines, fields)
    values = objects[0]
    if {"custom_id", "url", "body"} <= values.keys():
        return "the lines are requests of a batch file: --format openai?"
    if "candidates" not in fields and {"query", "candidates"} <= values.keys():
        return "the lines have query and candidates: --task rerank?"
    if "text" in fields:
        return _guess_text(values, fields["text"])
    if "source" in fields:
        return _guess_pair(values, fields)
    if "query" not in values and "text" in values:
        return "the lines have a text, and no query with its candidates: --task translate, or --task score?"
    return None


def guess_by_header(names: Sequence[str], fields: Collection[str], delimiter: str) -> str | None:
    """A hint for a header that lacks one of `fields`."""
    line = delimiter.join(names)
    if line.lstrip().startswith("{"):
        return "the lines are JSON objects: --format jsonl?"
    for other, written in DELIMITERS.items():
        cells = _cells(line, other)
        if other != delimiter and (set(fields) <= set(cells) or (len(names) == 1 and len(cells) > 1)):
            return f"the delimiter is another: --delimiter {written}{_text_option(cells, fields)}?"
    if any(map(_is_value, names)):
        return f"its first line looks like values: {_columns_option(len(names), fields)}"
    if len(fields) == 1 and (name := likely_name(names, but=("id",))):
        return f"the text is in the column {quoted(name, 30)}: --text-field {name}?"
    return None


def _is_value(cell: str) -> bool:
    """Whether a cell of a header is probably a value, and the table has no header."""
    return bool(_VALUE.fullmatch(cell.strip())) or len(cell.split()) > 3


_VALUE = re.compile(r"-?\d+([.,]\d+)*|https?://\S*|[\s\S]*[.!?。！？]")


def _columns_option(num_cells: int, fields: Collection[str]) -> str:
    """--columns for so many cells, as far as their order is known."""
    if num_cells <= len(fields) + 1:
        return f"--columns {','.join((['id'] if num_cells > len(fields) else []) + [*fields])}?"
    wanted = " and ".join(map(quoted, fields))
    return (
        f"if it is no header, name its {num_cells} columns in their order, {wanted} among them: --columns NAME,NAME,..."
    )


def guess_by_text(lines: Sequence[bytes]) -> str | None:
    """A hint for lines that were read as plain text because of the file's suffix."""
    if lines and len(list(_objects(lines))) == len(lines):
        return "the lines are JSON objects: --format jsonl? (With --format txt each line is a text.)"
    return None


def guess_list(lines: Sequence[bytes]) -> str | None:
    """A hint for a JSON list that was read as JSON Lines."""
    if lines and lines[0].strip() == b"[":
        return "it is one JSON list, not an object per line: jq -c '.[]' FILE makes lines of it"
    return None


def _objects(lines: Sequence[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            values = read_exactly(line.decode())
        except (ValueError, RecursionError):
            continue
        if isinstance(values, dict):
            yield values


def _guess_format(lines: Sequence[bytes], fields: Mapping[str, str]) -> str | None:
    first = lines[0].strip() if lines else b""
    if first.startswith(b"["):
        return guess_list([b"["])
    if first.startswith(b"{"):
        return "an object spans several lines: jq -c . FILE puts each on one" if _spans_lines(lines) else None
    try:
        text = b"\n".join(lines).decode()
    except UnicodeDecodeError:
        return None
    for delimiter, written in DELIMITERS.items():
        cells = _cells(first.decode(), delimiter)
        if set(fields.values()) <= set(cells) or ("id" in cells and _text_option(cells, fields.values())):
            form = FORMATS.get(delimiter)
            how = f"--format {form}" if form else f"--format csv --delimiter {written}"
            return f"the first line is the header of a table: {how}{_text_option(cells, fields.values())}?"
    return "the lines are plain text: --format txt?" if text and "text" in fields else None


def _spans_lines(lines: Sequence[bytes]) -> bool:
    """Whether the lines begin with a JSON value that spans several of them."""
    text = b"\n".join(lines).decode("utf-8", "replace").lstrip()
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return "\n" in text[:end]


def _guess_text(values: Mapping[str, Any], field: str) -> str | None:
    if field in values:
        return None
    if {"source", "target"} <= values.keys():
        return (
            "the lines have source and target: --task score with a model that translates? To work on the source "
            "alone: --text-field source"
        )
    texts = {name: value for name, value in field_paths(values) if isinstance(value, str) and value.strip()}
    name = likely_name(texts, but=("id", "_id"))
    if name is None and texts:
        name = max(texts, key=lambda field: len(texts[field]))
        if " " not in texts[name].strip():
            return None
    return f"the text is in the field {quoted(name, 30)}: --text-field {name}?" if name else None


def _guess_pair(values: Mapping[str, Any], fields: Mapping[str, str]) -> str | None:
    if set(fields.values()) <= values.keys():
        return None
    for source, target in PAIRS:
        if {source, target} <= values.keys():
            return (
                f"the lines have {source} and {target}: "
                f"{_option('source', source, fields)}{_option('target', target, fields)}?"
            ).replace(" ?", "?")
    within = [name for name, value in field_paths(values) if "." in name and isinstance(value, str)]
    if len(within) > 1:
        source, target, *_ = within
        return f"the lines have {source} and {target}: --source-field {source} --target-field {target}?"
    if "text" in values:
        return "the lines have a text and no pair: --model with a language model, such as demo-lm?"
    return None


def _option(role: str, name: str, fields: Mapping[str, str]) -> str:
    return "" if fields[role] == name else f"--{role}-field {name} "


def _text_option(cells: Collection[str], fields: Collection[str]) -> str:
    """The option --text-field, where the text is probably in another column."""
    if len(fields) != 1 or set(fields) <= set(cells):
        return ""
    name = likely_name(cells, but=("id",))
    return f" --text-field {name}" if name else ""


def likely_name(names: Collection[str], but: Collection[str]) -> str | None:
    """The most likely name of the text's field; where none is known, the only name besides `but`."""
    by_lower = {name.strip().lower(): name for name in names}
    for known in TEXT_FIELDS:
        if known in by_lower:
            return by_lower[known]
    others = [name for name in names if name not in but]
    return others[0] if len(others) == 1 else None


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []
