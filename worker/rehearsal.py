"""What a job would have to do, counted with the real splitter and tokenizer, without doing it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from jobs.corpus.documents import Document, Rejected
from jobs.corpus.reading import Corpus, read_corpus
from jobs.corpus.shards import cut_batches
from jobs.spec import JobSpec, RerankOptions, ScoreOptions, TranslateOptions
from worker.engine.language_model import open_language_model
from worker.engine.network import open_network
from worker.engine.templates import TEMPLATES, Template
from worker.models.registry import find_model
from worker.text.causal import CausalTokenizer
from worker.text.length_preview import LengthPreview, Measured, preview_lengths
from worker.text.marian import MarianTokenizer
from worker.text.preview import Preview, preview

SHOWN_REJECTED = 20

Measure = Callable[[str], Sequence[Measured]]  # the sequences that a document makes


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A corpus under a spec. Duplicate ids are not looked for: only the database remembers ten million of them."""

    preview: Preview | LengthPreview  # of the documents that can be read
    num_rejected: int
    rejected: tuple[Rejected, ...]  # the first of them
    num_shards: int


def rehearse(corpus: Corpus, spec: JobSpec, models_dir: Path) -> Rehearsal:
    """Read the corpus once and count; raise CorpusError where it cannot be read at all."""
    folder = find_model(spec.model, models_dir).path
    reading = _Reading(corpus)
    counted: Preview | LengthPreview
    match spec.options:
        case TranslateOptions() as options:
            counted = preview(
                reading.payloads(),
                MarianTokenizer.open(folder),
                source_language=options.source_language,
                target_language=options.target_language,
                max_tokens=open_network(folder).max_positions,
            )
        case ScoreOptions(pairs=True) as options:
            counted = preview_lengths(
                map(_pairs(MarianTokenizer.open(folder), options.target_language), reading.payloads()),
                max_tokens=open_network(folder).max_positions,
            )
        case options:
            tokenizer = CausalTokenizer.open(folder)
            measure = _texts(tokenizer) if isinstance(options, ScoreOptions) else _candidates(tokenizer, options)
            counted = preview_lengths(
                map(measure, reading.payloads()),
                max_tokens=(options.max_length or open_language_model(folder).max_positions)
                - (tokenizer.bos_id is not None),
            )
    return Rehearsal(counted, reading.num_rejected, tuple(reading.shown), reading.num_shards)


class _Reading:
    """One way through a corpus, and what is met on it."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self.shown: list[Rejected] = []
        self.num_rejected = 0
        self.num_shards = 0

    def payloads(self) -> Iterator[str]:
        for batch in cut_batches(read_corpus(self._corpus)):
            for shard in batch.shards:
                self.num_shards += any(isinstance(record, Document) for record in shard)
                for record in shard:
                    if isinstance(record, Document):
                        yield record.text
                        continue
                    self.num_rejected += 1
                    if len(self.shown) < SHOWN_REJECTED:
                        self.shown.append(record)


def _texts(tokenizer: CausalTokenizer) -> Measure:
    def measure(text: str) -> list[Measured]:
        num_tokens = len(tokenizer.encode(text).ids)
        return [Measured(num_tokens, num_tokens)]

    return measure


def _pairs(tokenizer: MarianTokenizer, target_language: str | None) -> Measure:
    """As the model reads them: label and end of the source, end of the target."""

    def measure(payload: str) -> list[Measured]:
        pair: dict[str, str] = orjson.loads(payload)
        source = len(tokenizer.encode(pair["source"], target_language))
        target = len(tokenizer.encode_target(pair["target"]))
        return [Measured(source + target, max(source, target))]

    return measure


def _candidates(tokenizer: CausalTokenizer, options: RerankOptions) -> Measure:
    """Each candidate behind or before its query, in the template. Texts that are missing make no sequence."""
    template = Template.parse(options.template or TEMPLATES[options.method])

    def measure(payload: str) -> list[Measured]:
        asked: dict[str, Any] = orjson.loads(payload)
        texts = [one["text"] for one in asked["candidates"] if one["text"]]
        parts = [template.split(asked["query"], text) for text in texts]
        lengths = [sum(len(tokenizer.encode(part).ids) for part in both) for both in parts]
        return [Measured(length, length) for length in lengths]

    return measure
