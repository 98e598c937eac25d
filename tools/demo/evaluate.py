"""Measure the accuracy of the translation model on unseen bulletins.

    python -m tools.demo.evaluate --model worker/demo/en-zh --documents 200

Greedy, sentence by sentence. A model's folder runs in kvjobs' engine, a Hugging Face checkpoint in transformers (extra
`train`, which includes sacrebleu). `evaluate` takes any other translation function as well.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sacrebleu

from jobs.tasks.shared_options import Timing
from jobs.tasks.translate import TranslateOptions
from tools.demo.grammar import Bulletin, unseen_bulletins
from tools.demo.script_parser import script_parser
from worker.engine.runtime.run_context import RunContext
from worker.engine.runtime.timing import Stopwatch
from worker.engine.seq2seq.open import open_seq2seq_model
from worker.engine.seq2seq.protocol import decode_all
from worker.models.contents.present_files import has_weights
from worker.text.translation.marian_tokenizer import MarianTokenizer

DEFAULT_MODEL = Path(__file__).parents[2] / "worker/demo/en-zh"
BATCH_ROWS = 64
MAX_SHOWN = 5  # wrong translations

Translate = Callable[[Sequence[str]], list[str]]  # sentences -> their translations


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Counts; the shares are derived."""

    num_sentences: int
    num_right_sentences: int
    num_documents: int
    num_right_documents: int  # with every sentence right
    chrf: float  # 0 to 100, of the corpus, a sentence at a time

    @property
    def sentence_share(self) -> float:
        return self.num_right_sentences / self.num_sentences

    @property
    def document_share(self) -> float:
        return self.num_right_documents / self.num_documents


def main() -> None:
    parser = script_parser("evaluate", __doc__)
    parser.add_argument("--model", type=Path, default=DEFAULT_MODEL, help="a model's folder, or a checkpoint")
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2)
    options = parser.parse_args()
    bulletins = list(unseen_bulletins(options.documents, options.seed))
    accuracy, mistakes = evaluate(open_translator(options.model), bulletins)
    for english, expected, got in mistakes[:MAX_SHOWN]:
        print(f"{english}\n  expected {expected}\n  got      {got}")
    print(f"sentences {accuracy.num_right_sentences}/{accuracy.num_sentences} = {accuracy.sentence_share:.2%}")
    print(f"documents {accuracy.num_right_documents}/{accuracy.num_documents} = {accuracy.document_share:.2%}")
    print(f"chrF {accuracy.chrf:.2f}")


def evaluate(translate: Translate, bulletins: Sequence[Bulletin]) -> tuple[Accuracy, list[tuple[str, str, str]]]:
    """The accuracy, and (English, expected, got) of each wrong translation."""
    sentences = [pair for bulletin in bulletins for pair in bulletin.sentences]
    expected = [pair.chinese for pair in sentences]
    got = translate([pair.english for pair in sentences])
    translation = {pair.english: text for pair, text in zip(sentences, got, strict=True)}
    mistakes = [
        (pair.english, pair.chinese, text) for pair, text in zip(sentences, got, strict=True) if text != pair.chinese
    ]
    right_documents = [
        all(translation[pair.english] == pair.chinese for pair in bulletin.sentences) for bulletin in bulletins
    ]
    accuracy = Accuracy(
        num_sentences=len(sentences),
        num_right_sentences=len(sentences) - len(mistakes),
        num_documents=len(bulletins),
        num_right_documents=sum(right_documents),
        chrf=sacrebleu.corpus_chrf(got, [expected]).score,
    )
    return accuracy, mistakes


def open_translator(directory: Path) -> Translate:
    """Greedy translation: a model in kvjobs' engine, a checkpoint in transformers, the reference implementation."""
    return _by_transformers(directory) if has_weights(directory) else _by_engine(directory)


def _by_engine(directory: Path) -> Translate:
    model, tokenizer = open_seq2seq_model(directory), MarianTokenizer.open(directory)
    options = TranslateOptions(beam_size=1)
    rules = model.generation.with_options(options, max_positions=model.max_positions)

    def translate(texts: Sequence[str]) -> list[str]:
        sources = [tokenizer.encode(text, None) for text in texts]
        run = RunContext(Stopwatch(Timing.OFF))
        found = decode_all(model.new_decoder(), sources, rules, run, batch_size=BATCH_ROWS)
        return [tokenizer.decode(best.ids) for best, *_ in found]

    return translate


def _by_transformers(directory: Path) -> Translate:
    import torch
    import transformers

    model: Any = transformers.MarianMTModel.from_pretrained(directory)
    # Not `from_pretrained`, which warns unless sacremoses is installed.
    settings = json.loads((directory / "tokenizer_config.json").read_text(encoding="utf-8"))
    tokenizer: Any = transformers.MarianTokenizer(
        source_spm=str(directory / "source.spm"),
        target_spm=str(directory / "target.spm"),
        vocab=str(directory / "vocab.json"),
        source_lang=settings["source_lang"],
        target_lang=settings["target_lang"],
    )

    def translate(texts: Sequence[str]) -> list[str]:
        translations = [""] * len(texts)
        longest_first = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
        for start in range(0, len(texts), BATCH_ROWS):
            rows = longest_first[start : start + BATCH_ROWS]
            batch = tokenizer([texts[row] for row in rows], return_tensors="pt", padding=True)
            with torch.inference_mode():
                output = model.generate(**batch, num_beams=1)
            for row, text in zip(rows, tokenizer.batch_decode(output, skip_special_tokens=True), strict=True):
                translations[row] = text
        return translations

    return translate


if __name__ == "__main__":
    main()
