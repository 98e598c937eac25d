"""How messages name the documents of each task, and what is done to them."""

from collections.abc import Mapping
from dataclasses import dataclass

from jobs.formatting import counted
from jobs.spec import Task
from jobs.stage import FILTER


@dataclass(frozen=True, slots=True)
class TaskTerms:
    """The nouns and verbs of a task."""

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
    Task.GENERATE: TaskTerms("prompt", "continuing", "continued"),
    FILTER: TaskTerms("document", "filtering", "kept"),
}
