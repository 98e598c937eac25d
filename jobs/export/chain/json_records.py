"""The documents of a chain as JSON Lines.

{"id", "status", "text"?, "translation", "flags"?, "score": {...}, "flags_2"?,
 "error"?: {"code", "message", "line", "stage"}, <other fields of the corpus' line>, "fields"?}
"""

from collections.abc import Sequence
from typing import Any

import orjson

from jobs.export.chain.chain_documents import ChainDocument
from jobs.export.chain.stage_values import StageValues
from jobs.export.export_formats import json_id, split_fields
from jobs.text.json_text import to_json


class JsonRecords:
    """Writes an object a line."""

    def __init__(self, stages: Sequence[StageValues | None], *, has_text: bool, is_payload: bool) -> None:
        """`has_text`: the document itself is written too. `is_payload`: that is itself JSON, a source with a target."""
        self._stages = stages
        self._has_text = has_text
        self._is_payload = is_payload
        own = (stage.keys for stage in stages if stage)
        self._reserved = frozenset({"id", "status", "text", "error", "fields"}).union(*own)

    def head(self) -> bytes:
        return b""

    def line(self, document: ChainDocument) -> bytes:
        record: dict[str, Any] = {"id": json_id(document.first), "status": document.status}
        if self._has_text:
            text = document.first.text
            record["text"] = orjson.loads(text) if self._is_payload and text else text
        for stage, there in zip(self._stages, document.of_stages, strict=True):
            record |= stage.in_json(there) if stage else {}
        if error := document.error:
            record["error"] = {"code": error.code, "message": error.message, "line": error.line, "stage": error.stage}
        own, hidden = split_fields(document.first, self._reserved)
        record.update(own)
        if hidden:
            record["fields"] = hidden
        return to_json(record) + b"\n"

    def tail(self) -> bytes:
        return b""
