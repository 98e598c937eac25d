"""A digest of the documents that a job has read so far: a killed submit is continued only with the same documents."""

import hashlib
from collections.abc import Iterable

from jobs.documents import Document, Record


class Fingerprint:
    """sha256 over records, the same however they are cut into batches."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def update(self, records: Iterable[Record]) -> None:
        """Add the next records."""
        parts = [
            f"{record.external_id}\0{record.text}\0{record.fields}\0"
            if type(record) is Document
            else f"{record.position}\0{record.code}\0"
            for record in records
        ]
        self._digest.update("".join(parts).encode())

    def hexdigest(self) -> str:
        """The digest of all records so far."""
        return self._digest.hexdigest()
