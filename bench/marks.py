"""How well marks are placed in translations of the bundled model, and what they cost.

    python -m bench.marks [--sentences 2000] [--beams 1] [--number '{speed}'] [--json]

Sentences of the grammar that the model was not trained on and that it translates as the grammar does, each with random
marks of one kind, in turn:

    phrase       a pair around a phrase of the grammar
    run          a pair around 1 to 5 words in a row whose translations are neighbours
    torn         the same, whose translations are not: no place is right, so it is to be flagged
    alone        a mark without an end before a word
    number       {n} in place of a number
    name         {name} in place of the name of a place
    address      a URL in place of the name of a place
    several      a pair around a phrase, and {n} or {name}

right: where the grammar's own alignment puts it; of placeholders, the sentence that the grammar has, with them in it.
tolerable: of pairs, around a part of what is right or with a part of what is not; of a mark alone, behind the
translation of the word before it; of placeholders, with a neighbour that is right. lost: not in the translation once.
flagged: of those that are not right, with `markup-moved` or `placeholder-lost`; too many: of those that are right.

Seconds of the processor (all threads) are of all these sentences as documents in calls of 64, and of the same sentences
without marks: their words, numbers and names as the grammar wrote them.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random

from bench.harness.machine import cpu_name
from jobs.outcome import Flag, Translation
from jobs.tasks.translate import Placeholders, TranslateOptions
from jobs.text.markup import Markup
from tools.demo.marked_sentences import KINDS, RIGHT, TOLERABLE, Marked, judge, marked
from tools.demo.word_links import unseen_linked_pairs
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.tasks.translation import Translator
from worker.text.translation.translation_tokenizer import open_translation_tokenizer

_MODEL = Path(__file__).resolve().parents[1] / "worker" / "demo" / "en-zh"
_SEED = 2
_CALL = 64  # documents


@dataclass(slots=True)
class Row:
    """The marked sentences of a kind."""

    kind: str
    sentences: int = 0
    right: int = 0
    tolerable: int = 0
    lost: int = 0
    lost_unflagged: int = 0
    wrong_flagged: int = 0
    right_flagged: int = 0

    def add(self, verdict: str, *, is_lost: bool, is_flagged: bool) -> None:
        self.sentences += 1
        self.right += verdict == RIGHT
        self.tolerable += verdict == TOLERABLE
        self.lost += is_lost
        self.lost_unflagged += is_lost and not is_flagged
        self.right_flagged += is_flagged and verdict == RIGHT
        self.wrong_flagged += is_flagged and verdict != RIGHT


@dataclass(slots=True)
class Seconds:
    """Of the processor for all sentences; by phase those of the clock."""

    plain: float
    marked: float
    phases: dict[str, float] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Of the job with marks, what it takes longer than without."""
        return 1 - self.plain / self.marked


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.marks", description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=2_000)
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--number", default="{n}", help="what the placeholder for a number is called")
    parser.add_argument("--show", metavar="KIND", help="print the sentences of a kind that are not right")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows, seconds = measure(options.sentences, options.beams, options.show, options.number)
    if options.json:
        found = {"processor": cpu_name(), "rows": [asdict(row) for row in rows], "seconds": asdict(seconds)}
        print(json.dumps(found))
        return
    print(cpu_name())
    print(f"{'marks':8} {'sentences':>9} {'right':>7} {'tolerable':>9} {'lost':>5} {'unflagged':>9} {'flagged':>8} "
          f"{'too many':>8}")  # fmt: skip
    for row in rows:
        others = row.sentences - row.right
        print(f"{row.kind:8} {row.sentences:9} {row.right / row.sentences:7.1%} {row.tolerable / row.sentences:9.1%} "
              f"{row.lost:5} {row.lost_unflagged:9} {row.wrong_flagged / max(others, 1):8.1%} "
              f"{row.right_flagged / max(row.right, 1):8.1%}")  # fmt: skip
    print(f"{seconds.plain:.2f} s without marks, {seconds.marked:.2f} s with them: marks are {seconds.share:.1%} of it")
    print(", ".join(f"{phase} {spent:.2f} s" for phase, spent in sorted(seconds.phases.items())))


def measure(num_sentences: int, beams: int, show: str | None = None, number: str = "{n}") -> tuple[list[Row], Seconds]:
    """A row of each kind and of all but `torn`, and what the marks cost."""
    translator = Translator(NativeSeq2Seq.open(_MODEL), open_translation_tokenizer(_MODEL))
    sentences = [_named(one, number) for one in _marked_sentences(num_sentences, translator)]
    options = TranslateOptions(beam_size=beams, reuse=False)
    with_marks = TranslateOptions(beam_size=beams, reuse=False, markup=Markup.HTML, placeholders=Placeholders.AUTO)
    plain, _found, _phases = _translate(translator, [one.plain.english for one in sentences], options)
    seconds, found, phases = _translate(translator, [one.text for one in sentences], with_marks)
    rows = {one.kind: Row(one.kind) for one in sentences}
    rows["all"] = Row("all")
    for one, translation in zip(sentences, found, strict=True):
        verdict = judge(one, translation.text)
        is_flagged = bool({Flag.MARKUP_MOVED, Flag.PLACEHOLDER_LOST} & set(translation.flags))
        is_lost = any(translation.text.count(mark) != 1 for mark in one.marks)
        for row in (rows[one.kind], rows["all"]):
            if one.kind != "torn" or row.kind == "torn" or is_lost:
                row.add(verdict, is_lost=is_lost, is_flagged=is_flagged)
        if show == one.kind and verdict != RIGHT:
            print(verdict, is_flagged, one.text, translation.text, one.plain.chinese, sep="\t")
    return list(rows.values()), Seconds(plain, seconds, phases)


def _marked_sentences(count: int, translator: Translator) -> Iterator[Marked]:
    """Sentences that the model translates as the grammar does, each with marks."""
    rng, seed, made = Random(_SEED), _SEED, 0
    while made < count:
        pairs = list(unseen_linked_pairs(_CALL, seed))
        seed += 1
        _spent, found, _phases = _translate(translator, [pair.english for pair in pairs], TranslateOptions(beam_size=1))
        for pair, translation in zip(pairs, found, strict=True):
            if translation.text == pair.chinese and made < count:
                one = marked(KINDS[made % len(KINDS)], pair, rng)
                if one is not None:
                    made += 1
                    yield one


def _named(one: Marked, number: str) -> Marked:
    """With another name for {n}."""
    return replace(
        one,
        text=one.text.replace("{n}", number),
        marks=tuple(mark.replace("{n}", number) for mark in one.marks),
        words=tuple((mark.replace("{n}", number), chinese) for mark, chinese in one.words),
    )


def _translate(
    translator: Translator, texts: Sequence[str], options: TranslateOptions
) -> tuple[float, list[Translation], dict[str, float]]:
    """Seconds of the processor, the translations, and seconds by phase."""
    found: list[Translation] = []
    phases: Counter[str] = Counter()
    begun = time.process_time()
    for at in range(0, len(texts), _CALL):
        run = RunContext()
        for outcome in translator.translate(texts[at : at + _CALL], options, run).outcomes:
            assert isinstance(outcome, Translation)
            found.append(outcome)
        for timing in run.timings:
            phases[timing.phase] += timing.seconds
    return time.process_time() - begun, found, dict(phases)


if __name__ == "__main__":
    main()
