"""How messages name the documents of each task, and what is done to them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jobs.formatting import counted
from jobs.spec import Task
from jobs.stage import FILTER


@dataclass(frozen=True, slots=True)
class TaskTerms:
    """The nouns and verbs of a task."""

    document: str
    do: str
    doing: str
    done: str

    def counted(self, number: int) -> str:
        """`1 query`, `2 queries`."""
        return counted(number, self.document)


TASK_TERMS: Mapping[str, TaskTerms] = {
    Task.TRANSLATE: TaskTerms("document", "translate", "translating", "translated"),
    Task.SCORE: TaskTerms("document", "score", "scoring", "scored"),
    Task.RERANK: TaskTerms("query", "rerank", "reranking", "reranked"),
    Task.GENERATE: TaskTerms("prompt", "continue", "continuing", "continued"),
    FILTER: TaskTerms("document", "filter", "filtering", "kept"),
}


def every_task(last: str, word: Callable[[TaskTerms], str]) -> str:
    """A word of all tasks, for help: `translated, scored, reranked or continued`. `last`: what joins the last two."""
    *words, end = [word(TASK_TERMS[task]) for task in Task]
    return f"{', '.join(words)} {last} {end}"
