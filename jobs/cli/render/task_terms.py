"""What the documents of a job are called, and what is done to them, task by task."""

from collections.abc import Mapping
from dataclasses import dataclass

from jobs.formatting import counted
from jobs.spec import Task


@dataclass(frozen=True, slots=True)
class TaskTerms:
    """How people speak of a task."""

    document: str
    doing: str
    done: str

    def counted(self, number: int) -> str:
        """`1 query`, `2 queries`."""
        return counted(number, self.document)


TASK_TERMS: Mapping[str, TaskTerms] = {
    Task.TRANSLATE: TaskTerms("document", "translating", "translated"),
    Task.SCORE: TaskTerms("document", "scoring", "scored"),
    Task.RERANK: TaskTerms("query", "reranking", "reranked"),
}
