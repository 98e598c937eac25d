"""Fresh checkpoints of both families of Marian models, added by `models add`, compared with transformers.

base      the first OPUS-MT models: swish, a joint vocabulary, one table for embeddings and head; the head is large
          enough here that greedy search screens candidates in int8
tc-big    the Tatoeba challenge models: relu, other widths, heads of size 10, separate vocabularies, an untied head
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from bench.checkpoints.models import build
from bench.checkpoints.shapes import Shape
from bench.checkpoints.tokenizer import write_tokenizer
from tests.tiny_models import decode
from worker.engine.search.generation_config import read_generation
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.graphs.file_names import SCREENED
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.add.target_ids import HeadChoice
from worker.models.json_file import read_json

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

SHAPES = {
    "base": Shape(
        width=32, encoder_layers=2, decoder_layers=2, heads=4, ffn=64, vocab_size=4_200, pad_id=4_199,
        max_positions=64, max_length=40, spread=0.1, lessons=250,
    ),
    "tc-big": Shape(
        width=40, encoder_layers=2, decoder_layers=2, heads=4, ffn=96, vocab_size=420, target_vocab_size=390,
        eos_id=43, pad_id=389, activation="relu", max_positions=64, max_length=40, spread=0.1, lessons=200,
    ),
}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"num_beams": 1},
    "beam 4": {"num_beams": 4, "num_return_sequences": 4},
    "beam 6, length penalty": {"num_beams": 6, "num_return_sequences": 6, "length_penalty": 1.4},
}
SEED = 11  # another seed than that of the golden files
LEAST_SETTLED = 0.8  # share of the sources
LEAST_AGREEMENT = 0.5  # share of equal best hypotheses, int8 to float32; trained models agree more

Ids = list[tuple[int, ...]]


@dataclass(frozen=True)
class Family:
    """A checkpoint, and the hypotheses of transformers for some sources."""

    checkpoint: Path
    sources: list[list[int]]
    wanted: dict[str, list[Ids]]  # name of the settings -> hypotheses of each source
    # name of the settings -> sources for which transformers gives the same ids in float64, where one batch of all is
    # exact enough; for the others two hypotheses are so close that the rounding of a processor decides
    settled: dict[str, list[int]]


@pytest.fixture(scope="module", params=SHAPES)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Family:
    torch.set_num_threads(1)
    shape, folder = SHAPES[request.param], tmp_path_factory.mktemp(request.param)
    model = build(shape, SEED)
    model.final_logits_bias.zero_()  # as in some published models
    model.save_pretrained(folder)
    write_tokenizer(
        folder,
        source_size=shape.vocab_size,
        target_size=shape.target_vocab_size,
        eos_id=shape.eos_id,
        pad_id=shape.pad_id,
    )
    rng = random.Random(SEED)
    words = [i for i in range(48) if i not in (shape.eos_id, shape.pad_id)]
    sources = [[*rng.choices(words, k=rng.randint(1, 16)), shape.eos_id] for _ in range(40)]
    wanted = {
        name: [hypotheses for source in sources for hypotheses in generate(model, [source], settings)]
        for name, settings in SETTINGS.items()
    }
    model.double()
    settled = {
        name: [place for place, ids in enumerate(generate(model, sources, settings)) if ids == wanted[name][place]]
        for name, settings in SETTINGS.items()
    }
    return Family(folder, sources, wanted, settled)


def generate(model: Any, sources: Sequence[list[int]], settings: dict[str, Any]) -> list[Ids]:
    """The hypotheses of transformers for each source, of one batch: its padding changes what is rounded."""
    eos_id, pad_id = model.config.eos_token_id, model.config.pad_token_id
    longest = max(map(len, sources))
    ids = torch.tensor([source + [pad_id] * (longest - len(source)) for source in sources])
    lengths = torch.tensor([[len(source)] for source in sources])
    sizes = model.config.vocab_size, model.config.decoder_vocab_size
    model.config.vocab_size = sizes[1]  # its beam search divides by the wrong one of the two sizes
    with torch.no_grad():
        mask = (torch.arange(longest) < lengths).long()
        sequences = model.generate(ids, attention_mask=mask, **settings)[:, 1:].tolist()
    model.config.vocab_size = sizes[0]
    cut = [tuple(found[: found.index(eos_id) + 1] if eos_id in found else found) for found in sequences]
    each = len(cut) // len(sources)
    return [cut[start : start + each] for start in range(0, len(cut), each)]


def open_added(family: Family, models_dir: Path, **options: Any) -> NativeSeq2Seq:
    """The model that `models add` makes of the checkpoint."""
    added = add_model(Request(source=str(family.checkpoint), name="model", **options), models_dir)
    return NativeSeq2Seq.open(Path(added.path))


def run(family: Family, model: NativeSeq2Seq, settings: dict[str, Any], rows: int) -> list[Ids]:
    config = read_json(family.checkpoint / "config.json")
    rules = read_generation(
        config,
        read_json(family.checkpoint / "generation_config.json") | settings,
        vocab_size=config["decoder_vocab_size"],
        max_positions=model.max_positions,
    )
    return [[one.ids for one in best] for best in decode(model, family.sources, rules, rows=rows)]


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_an_added_checkpoint_gives_the_ids_of_transformers(family: Family, tmp_path: Path, rows: int) -> None:
    model = open_added(family, tmp_path)
    assert (tmp_path / "model" / SCREENED).exists() == (model.graphs.num_target_ids > 4_096)

    for name, settings in SETTINGS.items():
        found = run(family, model, settings, rows)
        settled = family.settled[name]
        assert len(settled) >= LEAST_SETTLED * len(family.sources)
        assert [found[place] for place in settled] == [family.wanted[name][place] for place in settled], name
        assert len({len(best[0]) for best in found}) > 3, "lengths differ, so that rows begin and end at any step"


def test_int8_gives_nearly_the_same_translations_as_float32(
    family: Family, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = open_added(family, tmp_path, precision=Precision.INT8, head=HeadChoice.FULL)

    for name, settings in SETTINGS.items():
        alone, together = (run(family, model, settings, rows) for rows in (1, 64))
        same = sum(best[0] == wanted[0] for best, wanted in zip(together, family.wanted[name], strict=True))
        with capsys.disabled():
            print(f"\n{family.checkpoint.name}, {name}: int8 = float32 in {same} of {len(alone)}", end="")
        assert alone == together
        assert same >= LEAST_AGREEMENT * len(alone)
