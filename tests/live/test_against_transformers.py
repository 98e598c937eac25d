"""Freshly made and exported models, compared with torch and transformers at run time.

    pytest tests/live        needs the extra `train`; minutes, not seconds

The default run compares with recorded files (tests/golden); this suite finds out when another version of
transformers, Optimum or onnxruntime gives other results.
"""

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("optimum.exporters.onnx")

from bench.checkpoints.models import LAYOUTS, SHAPES, WITH_A_PAST, Shape, build, export
from jobs.tasks.shared_options import CachePolicy, Timing
from worker.engine.runtime.run_context import RunContext
from worker.engine.runtime.timing import Stopwatch
from worker.engine.search.generation_config import read_generation
from worker.engine.search.search import search
from worker.engine.seq2seq.batches import make_batches
from worker.engine.seq2seq.exported.decoder import ExportedSteps
from worker.engine.seq2seq.exported.model import ExportedSeq2Seq
from worker.models.json_file import read_json

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

FAMILIES = [name for name in SHAPES if name.startswith("tiny-")]
POLICIES = {
    "merged": ("on", "off", "hybrid:3"),
    "two": ("on", "off", "hybrid:3"),
    "none": ("auto", "off"),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"num_beams": 1},
    "beam 4": {"num_beams": 4, "num_return_sequences": 4},
    "beam 4, length penalty": {"num_beams": 4, "num_return_sequences": 4, "length_penalty": 1.6},
    "beam 4, early": {"num_beams": 4, "num_return_sequences": 4, "early_stopping": True, "max_length": 14},
}
SEED = 7  # another seed than that of the golden files
NUM_SOURCES = 8  # transformers takes most of the time: 0.2 s for each and each setting


@dataclass(frozen=True)
class Family:
    """A model in torch, and its exports."""

    shape: Shape
    model: Any
    folders: dict[str, Path]  # by layout
    sources: list[list[int]]
    generated: dict[str, list[list[tuple[int, ...]]]] = field(default_factory=dict)

    def generate(self, settings: dict[str, Any]) -> list[list[tuple[int, ...]]]:
        """The hypotheses of transformers for each source, generated one source at a time."""
        model, eos_id = self.model, self.shape.eos_id
        sizes = model.config.vocab_size, model.config.decoder_vocab_size
        model.config.vocab_size = sizes[1]  # its beam search divides by the wrong one of the two sizes
        found = []
        for source in self.sources:
            with torch.no_grad():
                sequences = model.generate(torch.tensor([source]), **settings)[:, 1:].tolist()
            found.append([tuple(ids[: ids.index(eos_id) + 1] if eos_id in ids else ids) for ids in sequences])
        model.config.vocab_size = sizes[0]
        return found

    def wanted(self, name: str) -> list[list[tuple[int, ...]]]:
        """The ids by these settings, which every layout is compared with."""
        if name not in self.generated:
            self.generated[name] = self.generate(SETTINGS[name])
        return self.generated[name]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Family:
    torch.set_num_threads(1)
    shape = SHAPES[request.param]
    model = build(shape, SEED)
    folders = {layout: tmp_path_factory.mktemp(layout) for layout in POLICIES}
    export(model, folders["none"], "none")
    export(model, exported := tmp_path_factory.mktemp("exported"), WITH_A_PAST)
    for layout in ("merged", "two"):
        for file in (*LAYOUTS[layout], "config.json", "generation_config.json"):
            shutil.copy(exported / file, folders[layout] / file)

    rng = random.Random(SEED)
    words = [i for i in range(min(48, shape.vocab_size)) if i not in (shape.eos_id, shape.pad_id)]
    sources = [[*rng.choices(words, k=rng.randint(1, 16)), shape.eos_id] for _ in range(NUM_SOURCES)]
    return Family(shape, model, folders, sources)


@pytest.mark.parametrize("layout", POLICIES)
def test_every_layout_and_policy_gives_the_ids_of_transformers(family: Family, layout: str) -> None:
    folder = family.folders[layout]
    model = ExportedSeq2Seq.open(folder)
    cache = model.graphs.new_cache()
    for name, settings in SETTINGS.items():
        wanted = family.wanted(name)
        rules = read_generation(
            read_json(folder / "config.json"),
            read_json(folder / "generation_config.json") | settings,
            vocab_size=model.graphs.layout.vocab_size,
            max_positions=model.max_positions,
        )
        for policy in POLICIES[layout]:
            for max_rows in (1, 5, NUM_SOURCES):
                found: dict[int, list[tuple[int, ...]]] = {}
                for batch in make_batches(family.sources, max_rows=max_rows, pad_id=model.pad_id):
                    decoding = ExportedSteps(
                        model.graphs,
                        cache,
                        batch,
                        policy=CachePolicy.parse(policy),
                        run=RunContext(Stopwatch(Timing.OFF)),
                    )
                    for index, hypotheses in zip(batch.order, search(decoding, len(batch.order), rules), strict=True):
                        found[index] = [hypothesis.ids for hypothesis in hypotheses]
                assert [found[index] for index in range(len(wanted))] == wanted, f"{name}, {policy}, {max_rows} rows"


def test_graphs_in_half_precision_run_with_and_without_a_cache(family: Family, tmp_path: Path) -> None:
    """With float16 keys and values, on a processor that computes in float32, at least half of the translations equal
    those of float32, and the cache changes none."""
    onnx = pytest.importorskip("onnx")
    float16 = pytest.importorskip("onnxruntime.transformers.float16")
    for file in family.folders["two"].iterdir():
        if file.suffix == ".onnx":
            onnx.save(float16.convert_float_to_float16(onnx.load(file)), tmp_path / file.name)
        else:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    model = ExportedSeq2Seq.open(tmp_path)
    assert model.graphs.layout.cache is not None
    assert str(model.graphs.layout.cache.dtype) == "float16"

    (batch,) = make_batches(family.sources, max_rows=NUM_SOURCES, pad_id=model.pad_id)
    rules = read_generation(
        read_json(tmp_path / "config.json"),
        read_json(tmp_path / "generation_config.json") | {"num_beams": 1},
        vocab_size=model.graphs.layout.vocab_size,
        max_positions=model.max_positions,
    )
    on, off = (
        [
            hypotheses[0].ids
            for hypotheses in search(
                ExportedSteps(
                    model.graphs, model.graphs.new_cache(), batch, policy=CachePolicy(mode), run=RunContext()
                ),
                NUM_SOURCES,
                rules,
            )
        ]
        for mode in ("on", "off")
    )
    wanted = [hypotheses[0] for hypotheses in family.generate({"num_beams": 1})]

    assert on == off
    equal = [one == wanted[index] for one, index in zip(on, batch.order, strict=True)]
    assert sum(equal) >= NUM_SOURCES / 2
