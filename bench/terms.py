"""How many terms of a glossary the bundled model's translations have, without and with decoding once more.

    python -m bench.terms [--sentences 1000] [--noise 0.2] [--beams 1] [--json]

Sentences of the grammar that the model was not trained on. Two glossaries of the grammar's words:

    reference    with the translations that the grammar has
    synonyms     each with the translation of another word of its kind (of a place another place), as a house's own
                 words are: nothing that the model was trained on; the reference has it too

`--noise` multiplies each weight by a number from a normal distribution around 1 with this standard deviation: a weaker
model, which misses more of the reference's words. A row for each bound on the loss, in nats of a token: what share of
sentences with terms has them all, what share of those that lacked one was taken, and chrF of all sentences, and of
those that lacked one. Seconds of the processor are of all sentences in calls of 64; of rows with a bound, for any loss.
"""

import argparse
import json
import math
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import sacrebleu

from bench.harness.machine import cpu_name
from jobs.outcome import Translation
from jobs.routing.language_pair import LanguagePair
from jobs.tasks.translate import Segmentation, TranslateOptions
from jobs.terms.glossary import Glossary, read_glossary
from tools.demo.grammar import Derivation, unseen_derivations
from tools.demo.rules import WORDS
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.tasks.term_check import lacking_terms, terms_of
from worker.engine.tasks.translation import Translator
from worker.text.translation.translation_tokenizer import open_translation_tokenizer

_MODEL = Path(__file__).resolve().parents[1] / "worker" / "demo" / "en-zh"
_KINDS = ("place", "region", "day", "part", "haze", "fall", "system", "warning")
_BOUNDS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, math.inf)
_SEED = 3
_CALL = 64  # documents

Words = dict[tuple[str, str], str]  # a word's English and Chinese -> the target of its term


@dataclass(frozen=True, slots=True)
class Row:
    """One glossary and one bound."""

    glossary: str
    bound: float  # nats of a token; -1: nothing is decoded again
    met: float  # of the sentences with terms, those that have them all
    taken: float  # of those that lacked one, those with another translation
    chrf: float
    chrf_lacking: float  # of the sentences that lacked a term
    seconds: float


@dataclass(frozen=True, slots=True)
class _Case:
    source: str
    reference: str
    plain: Translation
    again: Translation  # with any loss

    @property
    def loss(self) -> float:
        return _mean(self.plain) - _mean(self.again)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.terms", description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=1_000)
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="print so many sentences that were decoded again")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        model = with_noise(Path(folder) / "en-zh", options.noise)
        rows = [row for name, words in glossaries() for row in measure(model, name, words, options)]
    if options.json:
        print(json.dumps({"processor": cpu_name(), "rows": [asdict(row) for row in rows]}))
        return
    print(cpu_name())
    print(f"{'glossary':10} {'bound':>5} {'met':>6} {'taken':>6} {'chrF':>6} {'chrF, lacking':>13} {'s':>6}")
    for row in rows:
        bound = "plain" if row.bound < 0 else f"{row.bound:.2f}"
        print(f"{row.glossary:10} {bound:>5} {row.met:6.1%} {row.taken:6.1%} {row.chrf:6.2f} {row.chrf_lacking:13.2f} "
              f"{row.seconds:6.2f}")  # fmt: skip


def glossaries() -> Iterator[tuple[str, Words]]:
    """The two, by name; words of which the English is that of another one too are left out."""
    words = {kind: WORDS[kind] for kind in _KINDS}
    count = Counter(english.casefold() for some in words.values() for english, _ in some)
    unique = {kind: [word for word in some if count[word[0].casefold()] == 1] for kind, some in words.items()}
    yield "reference", {word: word[1] for some in unique.values() for word in some}
    rng, others = Random(_SEED), {}
    for some in unique.values():
        shuffled = rng.sample(some, len(some))
        others |= {word: other[1] for word, other in zip(shuffled, [*shuffled[1:], shuffled[0]], strict=True)}
    yield "synonyms", others


def with_noise(folder: Path, noise: float) -> Path:
    """A copy of the bundled model whose weights are wrong by random factors."""
    shutil.copytree(_MODEL, folder)
    weights = np.fromfile(folder / "weights.data", np.float32)
    factors = 1 + noise * np.random.default_rng(_SEED).normal(size=weights.shape)
    (weights * factors).astype(np.float32).tofile(folder / "weights.data")
    return folder


def measure(model: Path, name: str, words: Words, asked: argparse.Namespace) -> Iterator[Row]:
    """A row without decoding again, then one for each bound."""
    glossary = read_glossary({english: target for (english, _), target in words.items()})
    cases, plain_s, again_s = _cases(model, glossary, words, asked)
    lacking = [case for case in cases if _lacks(case, case.plain.text, glossary)]
    for case in lacking[: asked.show]:
        print(f"{case.loss:6.2f}", case.source, case.plain.text, case.again.text, case.reference, sep="\t")
    for bound in (-1.0, *_BOUNDS):
        chosen = [replace(case, plain=case.again) if case.loss <= bound else case for case in cases]
        now = [replace(case, plain=case.again) if case.loss <= bound else case for case in lacking]
        yield Row(
            glossary=name,
            bound=bound,
            met=1 - sum(_lacks(case, case.plain.text, glossary) for case in chosen) / len(chosen),
            taken=sum(case.again.text == case.plain.text for case in now) / max(len(now), 1) if bound >= 0 else 0.0,
            chrf=_chrf(chosen),
            chrf_lacking=_chrf(now) if now else math.nan,
            seconds=plain_s if bound < 0 else again_s,
        )


def _cases(
    model: Path, glossary: Glossary, words: Words, asked: argparse.Namespace
) -> tuple[list[_Case], float, float]:
    """The sentences that have terms, which their references have too, and the seconds without and with terms."""
    translator = Translator(NativeSeq2Seq.open(model), open_translation_tokenizer(model), max_term_loss=math.inf)
    options = TranslateOptions(beam_size=asked.beams, reuse=False, segment=Segmentation.NONE)
    with_terms = replace(options, glossary=glossary)
    pairs = [
        (pair.english, _rewritten(derivation, words).pair.chinese + "。")
        for pair, derivation in unseen_derivations(asked.sentences, _SEED)
    ]
    all_terms = terms_of([source for source, _ in pairs], with_terms, _LANGUAGES)
    pairs = [pair for pair, terms in zip(pairs, all_terms, strict=True) if terms and not lacking_terms(terms, pair[1])]
    sources = [source for source, _ in pairs]
    for warm in (options, with_terms):
        _translate(translator, sources[:_CALL], warm)
    plain_s, plain = _translate(translator, sources, options)
    again_s, again = _translate(translator, sources, with_terms)
    cases = [_Case(*pair, *both) for pair, *both in zip(pairs, plain, again, strict=True)]
    return cases, plain_s, again_s


_LANGUAGES = LanguagePair("en", "zh")


def _rewritten(derivation: Derivation, words: Words) -> Derivation:
    """How the grammar would have made the sentence with the glossary's words."""
    target = words.get((derivation.english, derivation.chinese)) if not derivation.slots else None
    slots: Mapping[str, Derivation] = {slot: _rewritten(part, words) for slot, part in derivation.slots.items()}
    return Derivation(derivation.english, target or derivation.chinese, slots)


def _translate(
    translator: Translator, texts: Sequence[str], options: TranslateOptions
) -> tuple[float, list[Translation]]:
    started, found = time.process_time(), []
    for start in range(0, len(texts), _CALL):
        run = RunContext(languages=_LANGUAGES)
        for outcome in translator.translate(texts[start : start + _CALL], options, run).outcomes:
            assert isinstance(outcome, Translation)
            found.append(outcome)
    return time.process_time() - started, found


def _lacks(case: _Case, translation: str, glossary: Glossary) -> bool:
    (terms,) = terms_of([case.source], TranslateOptions(glossary=glossary), _LANGUAGES)
    return bool(lacking_terms(terms, translation))


def _mean(translation: Translation) -> float:
    return (translation.log_prob or 0.0) / translation.num_target_tokens


def _chrf(cases: Sequence[_Case]) -> float:
    return float(sacrebleu.corpus_chrf([case.plain.text for case in cases], [[case.reference for case in cases]]).score)


if __name__ == "__main__":
    main()
