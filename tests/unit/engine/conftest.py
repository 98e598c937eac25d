"""The tiny models, open in each layout, with what transformers generates from them; no torch."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jobs.spec import CachePolicy, Timing
from worker.engine.batching import make_batches
from worker.engine.decoding import Decoding
from worker.engine.generation import Generation, read_generation, read_json
from worker.engine.hypothesis import Hypothesis
from worker.engine.kv_cache import KVCache
from worker.engine.search import search
from worker.engine.seq2seq import Seq2Seq
from worker.engine.timing import Stopwatch

GOLDEN = Path(__file__).parents[2] / "golden"
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
    model: Seq2Seq
    sources: list[list[int]]
    cases: list[Case]

    def case(self, name: str) -> Case:
        return next(case for case in self.cases if case.name == name)

    def rules(self, **settings: Any) -> Generation:
        """The model's rules, with some of generation_config.json's words said otherwise."""
        return read_generation(
            read_json(self.folder / "config.json"),
            read_json(self.folder / "generation_config.json") | settings,
            vocab_size=self.model.layout.vocab_size,
            max_positions=self.model.max_positions,
        )

    def run(
        self,
        rules: Generation,
        sources: Sequence[Sequence[int]] | None = None,
        *,
        cache: KVCache | None = None,
        policy: str = "auto",
        rows: int = 32,
        stopwatch: Stopwatch | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, in order."""
        sources = self.sources if sources is None else sources
        cache = cache or self.model.new_cache()
        stopwatch = stopwatch or Stopwatch(Timing.OFF)
        found: dict[int, list[Hypothesis]] = {}
        for batch in make_batches(sources, max_rows=rows, pad_id=self.model.pad_id):
            decoding = Decoding(self.model, cache, batch, policy=CachePolicy.parse(policy), stopwatch=stopwatch)
            found.update(zip(batch.order, search(decoding, len(batch.order), rules), strict=True))
        return [found[index] for index in range(len(sources))]


OpenTiny = Callable[..., Tiny]


@pytest.fixture(scope="session")
def open_tiny(tmp_path_factory: pytest.TempPathFactory) -> OpenTiny:
    """Open a tiny model: `open_tiny("tiny-swish-tied", "merged")`. Each is opened once."""
    opened: dict[tuple[str, str], Tiny] = {}

    def open_one(family: str = "tiny-swish-tied", layout: str = "merged") -> Tiny:
        if (family, layout) not in opened:
            folder = tmp_path_factory.mktemp(f"{family}-{layout}")
            for file in ("config.json", "generation_config.json", "encoder_model.onnx"):
                shutil.copy(GOLDEN / family / file, folder / file)
            for file, name in FILES[layout].items():
                shutil.copy(GOLDEN / family / file, folder / name)
            golden = json.loads((GOLDEN / f"{family}.json").read_text(encoding="utf-8"))
            cases = [Case(**case) for case in golden["cases"]]
            opened[family, layout] = Tiny(folder, Seq2Seq.open(folder), golden["sources"], cases)
        return opened[family, layout]

    return open_one


@pytest.fixture
def tiny(open_tiny: OpenTiny) -> Tiny:
    """The merged model that most tests use."""
    return open_tiny("tiny-swish-tied", "merged")


@pytest.fixture(scope="session")
def golden_folder() -> Path:
    return GOLDEN
