"""The tiny models, open in each layout and built anew in ours, with what transformers generates from them; no torch."""

import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from jobs.spec import CachePolicy, Timing
from tests.places import GOLDEN
from worker.engine.runtime.run_context import RunContext
from worker.engine.runtime.timing import Stopwatch
from worker.engine.search.generation_config import GenerationConfig, read_generation
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.search import search
from worker.engine.seq2seq.exported.kv_cache import ExportedKVCache
from worker.engine.seq2seq.exported.model import ExportedSeq2Seq
from worker.engine.seq2seq.exported.steps import ExportedSteps
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.seq2seq.padding import make_batches
from worker.engine.seq2seq.protocol import Decoder, Seq2SeqModel
from worker.graphs.marian import write_marian
from worker.graphs.precision import Precision
from worker.models.json_file import read_json
from worker.models.manifest import MANIFEST, Manifest

FILES = {
    "merged": {"decoder_model_merged.onnx": "decoder_model_merged.onnx"},
    "two": {
        "decoder_model.onnx": "decoder_model.onnx",
        "decoder_with_past_model.onnx": "decoder_with_past_model.onnx",
    },
    "none": {"decoder_model.onnx": "decoder_model.onnx"},  # with outputs for a cache that nothing reads
    "never": {"decoder_model_without_past.onnx": "decoder_model.onnx"},  # exported without a past
}


@dataclass(frozen=True)
class Case:
    """Settings of a search, and what came of them: hypotheses[source][rank] = {"ids", "score"?}."""

    name: str
    settings: dict[str, Any]
    hypotheses: list[list[dict[str, Any]]]


@dataclass(frozen=True)
class Tiny:
    """One of the tiny models, in one layout."""

    folder: Path
    model: ExportedSeq2Seq
    sources: list[list[int]]
    cases: list[Case]

    def case(self, name: str) -> Case:
        return next(case for case in self.cases if case.name == name)

    def rules(self, **settings: Any) -> GenerationConfig:
        """The model's rules, with some of generation_config.json's words said otherwise."""
        return read_generation(
            read_json(self.folder / "config.json"),
            read_json(self.folder / "generation_config.json") | settings,
            vocab_size=self.model.graphs.layout.vocab_size,
            max_positions=self.model.max_positions,
        )

    def run(
        self,
        rules: GenerationConfig,
        sources: Sequence[Sequence[int]] | None = None,
        *,
        cache: ExportedKVCache | None = None,
        policy: str = "auto",
        rows: int = 32,
        run: RunContext | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, in order."""
        sources = self.sources if sources is None else sources
        graphs = self.model.graphs
        cache = cache or graphs.new_cache()
        run = run or RunContext(Stopwatch(Timing.OFF))
        found: dict[int, list[Hypothesis]] = {}
        for batch in make_batches(sources, max_rows=rows, pad_id=self.model.pad_id):
            decoding = ExportedSteps(graphs, cache, batch, policy=CachePolicy.parse(policy), run=run)
            found.update(zip(batch.order, search(decoding, len(batch.order), rules), strict=True))
        return [found[index] for index in range(len(sources))]


@dataclass(frozen=True)
class Built:
    """One of the tiny models in graphs of our own, built from its weights."""

    folder: Path
    model: NativeSeq2Seq
    sources: list[list[int]]
    cases: list[Case]

    def case(self, name: str) -> Case:
        return next(case for case in self.cases if case.name == name)

    def rules(self, **settings: Any) -> GenerationConfig:
        """The model's rules, with some of generation_config.json's words said otherwise."""
        config = read_json(self.folder / "config.json")
        return read_generation(
            config,
            read_json(self.folder / "generation_config.json") | settings,
            vocab_size=config["decoder_vocab_size"],
            max_positions=self.model.max_positions,
        )

    def run(self, rules: GenerationConfig, **options: Any) -> list[list[Hypothesis]]:
        """The hypotheses of each source of the golden file, in order."""
        return decode(self.model, self.sources, rules, **options)

    def draw_sources(self, count: int, longest: int = 18, seed: int = 0) -> list[list[int]]:
        """Other sources, of 2 to `longest` tokens with the end."""
        config, rng = read_json(self.folder / "config.json"), random.Random(seed)
        special = config["eos_token_id"], config["pad_token_id"]
        words = [token_id for token_id in range(48) if token_id not in special]
        return [[*rng.choices(words, k=rng.randint(1, longest - 1)), special[0]] for _ in range(count)]


def build_kv(
    folder: Path,
    family: str,
    precision: Precision = Precision.FP32,
    *,
    head_ids: Sequence[int] | None = None,
    change: Callable[[dict[str, Any]], None] = lambda weights: None,
) -> Built:
    """Write and open the graphs of a tiny model; `change` may spoil its weights before."""
    for file in ("config.json", "generation_config.json"):
        shutil.copy(GOLDEN / family / file, folder / file)
    weights = load_file(GOLDEN / f"{family}.safetensors")
    change(weights)
    write_marian(folder, read_json(folder / "config.json"), weights, precision=precision, head_ids=head_ids)
    manifest = Manifest(
        layout="kv",
        architecture="marian",
        precision=precision,
        head="full" if head_ids is None else "target",
        head_ids=None if head_ids is None else tuple(head_ids),
        source=family,
        revision=None,
        source_files={},
        files={},
        versions={},
    )
    (folder / MANIFEST).write_bytes(manifest.to_bytes())
    golden = json.loads((GOLDEN / f"{family}.json").read_text(encoding="utf-8"))
    return Built(folder, NativeSeq2Seq.open(folder), golden["sources"], [Case(**case) for case in golden["cases"]])


def decode(
    model: Seq2SeqModel,
    sources: Sequence[Sequence[int]],
    rules: GenerationConfig,
    *,
    rows: int = 32,
    decoder: Decoder | None = None,
    cache: str = "auto",
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, in order, through the decoder that a lane uses."""
    decoder = decoder or model.new_decoder(CachePolicy.parse(cache))
    pairs = chain.from_iterable(decoder.decode(sources, rules, RunContext(Stopwatch(Timing.OFF)), batch_size=rows))
    found = sorted(pairs, key=itemgetter(0))
    assert [index for index, _ in found] == list(range(len(sources))), "each of them once"
    return [hypotheses for _, hypotheses in found]


def assert_golden(found: Sequence[Sequence[Hypothesis]], case: Case) -> None:
    """The ids of transformers, and its scores within 1e-4."""
    for index, (hypotheses, wanted) in enumerate(zip(found, case.hypotheses, strict=True)):
        ids = [list(hypothesis.ids) for hypothesis in hypotheses]
        assert ids == [one["ids"] for one in wanted], f"{case.name}, source {index}"
        for hypothesis, one in zip(hypotheses, wanted, strict=True):
            if "score" in one:
                assert hypothesis.score == pytest.approx(one["score"], rel=1e-4, abs=1e-4)


OpenTiny = Callable[..., Tiny]  # a family, a layout
OpenKV = Callable[..., Built]  # a family, a precision
