"""What the documents of a job are called, and what is done to them, task by task."""

from collections.abc import Mapping
from dataclasses import dataclass

from jobs.formatting import counted
from jobs.spec import Task


@dataclass(frozen=True, slots=True)
class Words:
    """How people speak of a task."""

    document: str
    doing: str
    done: str

    def counted(self, number: int) -> str:
        """`1 query`, `2 queries`."""
        return counted(number, self.document)


WORDS: Mapping[str, Words] = {
    Task.TRANSLATE: Words("document", "translating", "translated"),
    Task.SCORE: Words("document", "scoring", "scored"),
    Task.RERANK: Words("query", "reranking", "reranked"),
}
