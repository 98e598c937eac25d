"""
Relevance judgements (qrels): which documents answer a query, and how well.

    TREC   qid 0 docid relevance            separated by white space
    BEIR   query-id  corpus-id  score       separated by tabs, below a header

Knows: these two formats. Does not know: rankings, measures.
"""

from pathlib import Path

from jobs.corpus.lines import LineFile
from jobs.documents import quoted
from jobs.errors import CorpusError

Qrels = dict[str, dict[str, int]]  # query -> document -> relevance; 0 or less: not relevant


def read_qrels(path: Path) -> Qrels:
    """The judgements in a file. Raises CorpusError for a line that is not a judgement, and for an empty file."""
    file = LineFile(path)
    qrels: Qrels = {}
    for number, line in file:
        try:
            *ids, relevance = line.decode().split()
            query_id, document_id = ids if len(ids) == 2 else (ids[0], ids[2])
            if len(ids) > 3:
                raise ValueError
            qrels.setdefault(query_id, {})[document_id] = _relevance(relevance)
        except UnicodeDecodeError:
            raise file.error(number, "it is not UTF-8; save the judgements as UTF-8") from None
        except (ValueError, IndexError):
            if number == 1 and line.count(b"\t") == 2:  # the header of BEIR
                continue
            what = f"{quoted(line.strip())} is not a judgement; write `qid 0 docid relevance`, or BEIR's three columns"
            raise file.error(number, what) from None
    if not qrels:
        raise CorpusError(f"{path}: there is no judgement in it; is it the right file?")
    return qrels


def _relevance(written: str) -> int:
    """A whole number, also as 1.0. Raises ValueError for any other text."""
    whole, _, fraction = written.partition(".")
    if fraction.strip("0"):
        raise ValueError
    return int(whole)


def find_qrels(folder: Path, split: str = "test") -> Path:
    """The file of judgements of a BEIR folder. Raises CorpusError, which names the splits that it has."""
    path = folder / "qrels" / f"{split}.tsv"
    if path.is_file():
        return path
    splits = sorted(found.stem for found in (folder / "qrels").glob("*.tsv"))
    have = f"it has those of {', '.join(splits)}" if splits else "it has none"
    raise CorpusError(f"{folder} has no judgements qrels/{split}.tsv ({have}); name the file")
