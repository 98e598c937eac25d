"""A retrieval set: short bulletins, questions that exactly one of them answers, and the candidates of BM25.

Knows: documents, questions, which document answers which question. Does not know: files, models.
All documents consist of sentences that no bundled model was trained on (`grammar`); a seed determines a set.
"""

from dataclasses import dataclass
from random import Random

from tools.demo.bm25 import Bm25
from tools.demo.grammar import Bulletin, unseen_bulletins
from tools.demo.questions import answers, ask

DEPTH = 20  # candidates of a query
MAX_SENTENCES = 3  # of a document
MAX_TRIES = 8  # questions drawn for a document, until one is suitable


@dataclass(frozen=True, slots=True)
class RetrievalSet:
    """Ids and texts. Every query has one relevant document, which is among its candidates."""

    documents: dict[str, str]
    queries: dict[str, str]
    relevant: dict[str, str]  # query id -> document id
    candidates: dict[str, list[tuple[str, float]]]  # query id -> (document id, BM25 score), best first


def retrieval_set(num_documents: int, num_queries: int, seed: int) -> RetrievalSet:
    """Draw a set. Each question has exactly one document that answers it, which is among the DEPTH best of BM25.

    Raises ValueError if there are too few documents for so many queries.
    """
    rng = Random(f"retrieval {seed}")
    documents = {
        f"d{number:04d}": _short(rng, bulletin)
        for number, bulletin in enumerate(unseen_bulletins(num_documents, seed), start=1)
    }
    first_stage = Bm25(documents)
    made = RetrievalSet(documents, {}, {}, {})
    for document_id in rng.sample(list(documents), num_documents):
        if len(made.queries) == num_queries:
            return made
        for _ in range(MAX_TRIES):
            question = ask(rng, documents[document_id])
            if question is None or question.text in made.queries.values():
                continue
            if any(answers(question, text) for other, text in documents.items() if other != document_id):
                continue
            candidates = first_stage.best(question.text, DEPTH)
            if document_id in dict(candidates):
                query_id = f"q{len(made.queries) + 1:03d}"
                made.queries[query_id] = question.text
                made.relevant[query_id] = document_id
                made.candidates[query_id] = candidates
                break
    if len(made.queries) < num_queries:
        raise ValueError(
            f"{num_documents} documents gave {len(made.queries)} queries of {num_queries}: ask for fewer queries"
        )
    return made


def _short(rng: Random, bulletin: Bulletin) -> str:
    """The first sentences of a bulletin, without its title."""
    sentences = [pair.english for pair in bulletin.sentences if pair.english.endswith(".")]
    return " ".join(sentences[: rng.randint(1, MAX_SENTENCES)])
