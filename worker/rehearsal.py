"""What a job would have to do, counted with the real splitter and tokenizer, without doing it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jobs.corpus.documents import Document, Rejected
from jobs.corpus.reading import Corpus, read_corpus
from jobs.corpus.shards import cut_batches
from jobs.spec import JobSpec, TranslateOptions
from worker.engine.network import open_network
from worker.models.registry import find_model
from worker.text.marian import MarianTokenizer
from worker.text.preview import Preview, preview

SHOWN_REJECTED = 20


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A corpus under a spec. Duplicate ids are not looked for: only the database remembers ten million of them."""

    preview: Preview  # of the documents that can be read
    num_rejected: int
    rejected: tuple[Rejected, ...]  # the first of them
    num_shards: int


def rehearse(corpus: Corpus, spec: JobSpec, models_dir: Path) -> Rehearsal:
    """Read the corpus once and count; raise CorpusError where it cannot be read at all."""
    assert isinstance(spec.options, TranslateOptions)
    folder = find_model(spec.model, models_dir)
    network = open_network(folder.path)
    shown: list[Rejected] = []
    num_rejected = num_shards = 0

    def texts() -> Iterator[str]:
        nonlocal num_rejected, num_shards
        for batch in cut_batches(read_corpus(corpus)):
            for shard in batch.shards:
                num_shards += any(isinstance(record, Document) for record in shard)
                for record in shard:
                    if isinstance(record, Document):
                        yield record.text
                        continue
                    num_rejected += 1
                    if len(shown) < SHOWN_REJECTED:
                        shown.append(record)

    counted = preview(
        texts(),
        MarianTokenizer.open(folder.path),
        source_language=spec.options.source_language,
        target_language=spec.options.target_language,
        max_tokens=network.max_positions,
    )
    return Rehearsal(counted, num_rejected, tuple(shown), num_shards)
