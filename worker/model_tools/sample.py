"""Sample texts to try a model with: of a corpus, or else the weather bulletins beside this file."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from jobs.corpus.corpus import Corpus
from jobs.corpus.reading import read_corpus
from jobs.documents import Document
from jobs.errors import SpecError
from jobs.tasks.kind import PayloadKind
from worker.engine.tasks.rerank.rerank_payload import RerankPayload
from worker.engine.tasks.tokenizers import TextTokenizer
from worker.text.segments import segment
from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer

TextPair = tuple[str, str]  # a query and a document

# `python -m tools.demo.examples --documents 100` wrote them: no sentence was in the training of the bundled models.
_BULLETINS = Path(__file__).with_name("bulletins.jsonl")


def read_segments(
    path: str | None,
    tokenizer: Seq2SeqTokenizer,
    *,
    source_language: str,
    target_language: str | None,
    max_tokens: int,
    limit: int,
) -> list[list[int]]:
    """The first `limit` distinct sentences as ids, split where they have more than `max_tokens`.

    Raises CorpusError for a corpus that cannot be read, SpecError for one without a sentence.
    """
    sentences = (span.text for text in _texts(path) for span in segment(text, source_language) if span.translatable)
    chosen = list(islice(dict.fromkeys(islice(sentences, 100 * limit)), limit))
    if not chosen:
        raise SpecError(f"{path} has no sentence that could be translated: name another corpus")
    tokenizer = tokenizer.for_source(source_language)
    return [ids for sentence in chosen for ids in tokenizer.split(sentence, target_language, max_tokens)]


def read_documents(path: str | None, tokenizer: TextTokenizer, *, limit: int) -> list[list[int]]:
    """The first `limit` distinct documents of two tokens or more as ids, after BOS where the tokenizer has one.

    Raises CorpusError for a corpus that cannot be read, SpecError for one without such a document.
    """
    before = [] if tokenizer.bos_id is None else [tokenizer.bos_id]
    documents = ([*before, *tokenizer.encode(text).ids] for text in dict.fromkeys(islice(_texts(path), 100 * limit)))
    chosen = list(islice((ids for ids in documents if len(ids) > 1), limit))
    if not chosen:
        raise SpecError(f"{path} has no document with a token that could be scored: name another corpus")
    return chosen


def read_pairs(path: str | None, *, limit: int) -> list[TextPair]:
    """The first `limit` queries with a candidate of a corpus as for reranking; without one, the beginning of each
    weather bulletin with itself and with the next one.

    Raises CorpusError for a corpus that cannot be read, SpecError for one without such a pair.
    """
    pairs = _bulletin_pairs() if path is None else _ranked_pairs(path)
    chosen = list(islice(pairs, limit))
    if not chosen:
        raise SpecError(f"{path} has no query with a candidate: name another corpus, as submit --task rerank reads it")
    return chosen


def bulletins(limit: int | None = None) -> list[str]:
    """The first `limit` of the 100 weather bulletins that come with kvjobs: a few paragraphs in English each."""
    return list(islice(_texts(None), limit))


def _bulletin_pairs() -> Iterator[TextPair]:
    texts = bulletins()
    for bulletin, following in zip(texts, [*texts[1:], texts[0]], strict=True):
        query = bulletin.partition("\n")[0].partition(". ")[0]
        yield query, bulletin
        yield query, following


def _ranked_pairs(path: str) -> Iterator[TextPair]:
    for record in read_corpus(Corpus(path=path, payload_kind=PayloadKind.CANDIDATES)):
        payload = RerankPayload.read(record.text) if isinstance(record, Document) else None
        for candidate in payload.candidates if payload else ():
            if payload and candidate.text and not payload.query.isspace():
                yield payload.query, candidate.text


def _texts(path: str | None) -> Iterator[str]:
    for record in read_corpus(Corpus(path=path or str(_BULLETINS))):
        if isinstance(record, Document):
            yield record.text
