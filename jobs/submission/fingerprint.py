"""What a job has read so far, as one number: a submit that was killed goes on only with the same documents."""

import hashlib
from collections.abc import Iterable

from jobs.documents import Document, Record


class Fingerprint:
    """A running digest over records: the same however they are cut into batches."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def update(self, records: Iterable[Record]) -> None:
        """Take in some records more."""
        parts = [
            f"{record.external_id}\0{record.text}\0{record.fields}\0"
            if type(record) is Document
            else f"{record.position}\0{record.code}\0"
            for record in records
        ]
        self._digest.update("".join(parts).encode())

    def hexdigest(self) -> str:
        """Of all records so far."""
        return self._digest.hexdigest()
