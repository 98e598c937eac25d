"""The address of a document: its id in the corpus, or its position where an id cannot stand in an address."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode


def document_address(job_id: int, position: int, external_id: str | None, parameters: Mapping[str, Any]) -> str:
    """`/jobs/7/documents/doc%2F1?status=failed`: the filter of the list that it stands in is kept."""
    kept = dict(parameters)
    path = f"/jobs/{job_id}/documents/"
    if external_id is not None and can_stand_in_path(external_id):
        path += quote(external_id, safe="")
    else:
        kept = {"position": position, **kept}
    return f"{path}?{urlencode(kept)}" if kept else path


def can_stand_in_path(external_id: str) -> bool:
    """Whether a browser sends this id as it is: it drops a part that is `.` or `..`, and control characters."""
    parts = external_id.replace("\\", "/").split("/")
    return external_id.isprintable() and "" not in parts and not {".", ".."} & set(parts)


def json_document_address(job_id: int, position: int, external_id: str | None, parameters: Mapping[str, Any]) -> str:
    """The same document as JSON."""
    path, _, query = document_address(job_id, position, external_id, parameters).partition("?")
    return f"{path}.json" + (f"?{query}" if query else "")
