"""
Relevance judgements: which documents answer a query, and how well.

    TREC   qid 0 docid relevance            white space between
    BEIR   query-id  corpus-id  score       tabs between, below a header

Knows: these two formats. Does not know: rankings, measures.
"""

from pathlib import Path

from jobs.corpus.line_file import LineFile
from jobs.documents import shown
from jobs.errors import CorpusError

Qrels = dict[str, dict[str, int]]  # query -> document -> relevance, 0 or less where it is not relevant


def read_qrels(path: Path) -> Qrels:
    """The judgements of a file; raise CorpusError where a line is none, or there is none at all."""
    file = LineFile(path)
    qrels: Qrels = {}
    for number, line in file:
        try:
            *ids, relevance = line.decode().split()
            query_id, document_id = ids if len(ids) == 2 else (ids[0], ids[2])
            if len(ids) > 3:
                raise ValueError
            qrels.setdefault(query_id, {})[document_id] = int(relevance)
        except UnicodeDecodeError:
            raise file.error(number, "it is not UTF-8; save the judgements as UTF-8") from None
        except (ValueError, IndexError):
            if number == 1 and line.count(b"\t") == 2:  # the header of BEIR
                continue
            what = f"{shown(line.strip())} is no judgement; write `qid 0 docid relevance`, or BEIR's three columns"
            raise file.error(number, what) from None
    if not qrels:
        raise CorpusError(f"{path}: there is no judgement in it; is it the right file?")
    return qrels


def find_qrels(folder: Path, split: str = "test") -> Path:
    """The judgements of a BEIR folder; raise CorpusError that names those there are."""
    path = folder / "qrels" / f"{split}.tsv"
    if path.is_file():
        return path
    there = sorted(found.stem for found in (folder / "qrels").glob("*.tsv"))
    have = f"it has those of {', '.join(there)}" if there else "it has none"
    raise CorpusError(f"{folder} has no judgements qrels/{split}.tsv ({have}); name the file")
