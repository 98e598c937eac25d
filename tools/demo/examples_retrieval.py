"""Write the example retrieval set, the first of its queries as a file to rerank, and a corpus to filter by perplexity.

    python -m tools.demo.examples_retrieval --out examples

    retrieval/corpus.jsonl, queries.jsonl, qrels/test.tsv    a BEIR folder
    retrieval/bm25.run                                       its first stage, in the TREC run format
    questions.jsonl                                          queries with their candidates, as `rerank` reads them
    mixed.jsonl                                              fluent bulletins and shuffled ones

The same options give the same bytes on every machine. No sentence of these documents was used for training.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

from tools.demo.grammar import unseen_bulletins
from tools.demo.retrieval import RetrievalSet, retrieval_set
from tools.demo.script_parser import script_parser

NUM_DOCUMENTS = 250
NUM_QUERIES = 60
NUM_QUESTIONS = 10  # queries in questions.jsonl
NUM_MIXED = 40
SEED = 21
RUN = "bm25"  # the tag of the run file


def main() -> None:
    parser = script_parser("examples_retrieval", __doc__)
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    options = parser.parse_args()
    for name, text in files().items():
        file = options.out / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")


def files() -> dict[str, str]:
    """The text of each file, by its path."""
    made = retrieval_set(NUM_DOCUMENTS, NUM_QUERIES, SEED)
    return {
        "retrieval/corpus.jsonl": _lines(
            {"_id": key, "title": "", "text": text} for key, text in made.documents.items()
        ),
        "retrieval/queries.jsonl": _lines({"_id": key, "text": text} for key, text in made.queries.items()),
        "retrieval/qrels/test.tsv": "query-id\tcorpus-id\tscore\n"
        + "".join(f"{query}\t{document}\t1\n" for query, document in made.relevant.items()),
        f"retrieval/{RUN}.run": "".join(
            f"{query} Q0 {document} {rank} {score:.4f} {RUN}\n"
            for query, candidates in made.candidates.items()
            for rank, (document, score) in enumerate(candidates, start=1)
        ),
        "questions.jsonl": _lines(_question(made, query) for query in list(made.queries)[:NUM_QUESTIONS]),
        "mixed.jsonl": _lines(_mixed()),
    }


def _question(made: RetrievalSet, query: str) -> dict[str, Any]:
    candidates = [
        {"id": document, "text": made.documents[document], "score": score} for document, score in made.candidates[query]
    ]
    return {"id": query, "query": made.queries[query], "candidates": candidates}


def _mixed() -> list[dict[str, str]]:
    """Half of the bulletins as they are, the other half with shuffled words."""
    rng = Random(f"mixed {SEED}")
    shuffled = set(rng.sample(range(NUM_MIXED), NUM_MIXED // 2))
    records = []
    for index, bulletin in enumerate(unseen_bulletins(NUM_MIXED, SEED + 1)):
        text, kind = bulletin.english, "fluent"
        if index in shuffled:
            words = text.split()
            text, kind = " ".join(rng.sample(words, len(words))), "shuffled"
        records.append({"id": f"mixed-{index + 1:02d}", "lang": "en", "kind": kind, "text": text})
    return records


def _lines(records: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


if __name__ == "__main__":
    main()
