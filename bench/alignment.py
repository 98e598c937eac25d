"""How well the bundled model's attention aligns words: the alignment error rate on sentences whose true alignment the
grammar knows.

    python -m bench.alignment [--sentences 1000] [--json]

Sentences that the model was not trained on, with their reference translations; the attention of each layer, of all and
of the choice that the model's manifest has, at the step that writes a token and at the one that reads it. Precision and
recall are against possible and sure links, the error rate is that of Och and Ney (2003). Seconds are of one thread,
tokenizing included.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.harness.machine import cpu_name
from tools.demo.word_links import LinkedPair, error_rate, unseen_linked_pairs
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.tasks.word_aligning import WordAligner
from worker.models.manifest import AttentionChoice
from worker.text.translation.translation_tokenizer import open_translation_tokenizer

_MODEL = Path(__file__).resolve().parents[1] / "worker" / "demo" / "en-zh"
_SEED = 1


@dataclass(frozen=True, slots=True)
class Row:
    """The links of one attention, over all sentences."""

    layers: str  # from 1
    step: str  # writes | reads
    error_rate: float
    precision: float
    recall: float
    seconds: float


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.alignment", description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=1_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows = list(measure(options.sentences))
    if options.json:
        print(json.dumps({"processor": cpu_name(), "rows": [asdict(row) for row in rows]}))
        return
    print(cpu_name())
    print(f"{'layers':10} {'step':6} {'error rate':>10} {'precision':>9} {'recall':>6} {'s':>6}")
    for row in rows:
        print(f"{row.layers:10} {row.step:6} {row.error_rate:10.3f} {row.precision:9.3f} {row.recall:6.3f} "
              f"{row.seconds:6.2f}")  # fmt: skip


def measure(num_sentences: int) -> Iterator[Row]:
    """A row for the model's choice, then one for each other attention."""
    model = NativeSeq2Seq.open(_MODEL)
    aligner = WordAligner.of(model, open_translation_tokenizer(_MODEL))
    assert aligner is not None  # its graphs are native
    pairs = list(unseen_linked_pairs(num_sentences, _SEED))
    choice = model.new_attention_reader().choice
    all_layers = range(model.graphs.shape.num_layers)
    yield _row("the choice", choice, aligner, pairs)
    for layers in [*((layer,) for layer in all_layers), tuple(all_layers)]:
        for reads in (False, True):
            name = "all" if len(layers) > 1 else str(layers[0] + 1)
            yield _row(name, AttentionChoice(layers, reads), aligner, pairs)


def _row(name: str, choice: AttentionChoice, aligner: WordAligner, pairs: list[LinkedPair]) -> Row:
    started = time.perf_counter()
    found = aligner.align([(pair.english, pair.chinese) for pair in pairs], None, RunContext(), choice)
    seconds = time.perf_counter() - started
    links = {(at, *link) for at, one in enumerate(found) if one is not None for link in one.links}
    sure = {(at, *link) for at, pair in enumerate(pairs) for link in pair.sure}
    possible = {(at, *link) for at, pair in enumerate(pairs) for link in pair.possible}
    return Row(
        layers=name,
        step="reads" if choice.reads else "writes",
        error_rate=error_rate(links, sure, possible),
        precision=len(links & possible) / len(links),
        recall=len(links & sure) / len(sure),
        seconds=seconds,
    )


if __name__ == "__main__":
    main()
