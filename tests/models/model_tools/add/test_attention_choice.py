"""Which attention aligns words: chosen by what the tokens of a translation depend on."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.checkpoints import write_marian_checkpoint
from tests.places import DEMO_MODEL
from tests.seq2seq_checkpoints import FAMILIES
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.batches import IdPair
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.add.attention_choice import Dependence, best_choice, measure_attention
from worker.models.manifest import AttentionChoice, Manifest

NUM_LAYERS, NUM_HEADS, NUM_TOKENS = 3, 4, 8


class MadeUpReader:
    """Attends to the token at the same place in one layer, at the step that writes a token or at the one that reads
    it, and anywhere in the others. `head`: the only one of the layer that does."""

    num_layers = NUM_LAYERS
    choice = AttentionChoice.unmeasured(NUM_LAYERS)

    def __init__(self, layer: int | None, reads: bool, noise: float, head: int | None = None, seed: int = 0) -> None:
        self._layer, self._reads, self._noise = layer, reads, noise
        self._heads = range(NUM_HEADS) if head is None else [head]
        self._seed = seed

    def attention_by_head(self, pairs: Sequence[IdPair], layer: int, run: RunContext) -> list[np.ndarray]:
        rng = np.random.default_rng([self._seed, layer])
        found = []
        for pair in pairs:
            weights = rng.random((NUM_HEADS, len(pair.target), len(pair.source))) * self._noise
            if layer == self._layer:
                weights[self._heads] += np.eye(*weights.shape[1:], k=-self._reads)
            found.append(weights.astype(np.float32))
        return found

    def attention(
        self, pairs: Sequence[IdPair], layers: Sequence[int], run: RunContext, head: int | None = None
    ) -> list[np.ndarray]:
        raise AssertionError("the weights of each head are enough")


def dependences(count: int = 20) -> list[Dependence]:
    """Of which each token depends on the one at its place."""
    ids, places = [*range(5, 5 + NUM_TOKENS), 0], np.arange(NUM_TOKENS)
    return [Dependence(IdPair(ids, ids), range(NUM_TOKENS), places, places) for _ in range(count)]


@pytest.mark.parametrize("layer", range(NUM_LAYERS))
@pytest.mark.parametrize("reads", [False, True])
def test_the_layer_and_the_step_that_agree_are_chosen(layer: int, reads: bool) -> None:
    chosen = best_choice(MadeUpReader(layer, reads, noise=5.0), dependences())

    assert (chosen.layers, chosen.reads, chosen.head) == ((layer,), reads, None)


@pytest.mark.parametrize(("layer", "head"), [(0, 2), (2, 0), (2, 3)])
@pytest.mark.parametrize("reads", [False, True])
def test_the_only_head_that_agrees_is_chosen(layer: int, head: int, reads: bool) -> None:
    chosen = best_choice(MadeUpReader(layer, reads, noise=1.5, head=head), dependences())

    assert (chosen.layers, chosen.reads, chosen.head) == ((layer,), reads, head)


@pytest.mark.parametrize("seed", range(20))
def test_no_head_is_chosen_by_chance(seed: int) -> None:
    chosen = best_choice(MadeUpReader(None, reads=False, noise=1.0, seed=seed), dependences())

    assert chosen.head is None or (chosen.layers, chosen.head, chosen.reads) == ((2,), 0, False)


def test_the_head_of_a_model_that_is_known_to_be_guided_is_chosen_whatever_agrees() -> None:
    chosen = best_choice(MadeUpReader(1, reads=True, noise=0.01), dependences(), is_guided=True)

    assert (chosen.layers, chosen.reads, chosen.head) == ((NUM_LAYERS - 1,), False, 0)
    assert chosen.agreement is not None
    assert chosen.agreement < 0.5


def test_the_head_that_guided_alignment_trains_is_taken_on_less_evidence_than_another() -> None:
    guided = [
        best_choice(MadeUpReader(NUM_LAYERS - 1, False, noise=6.0, head=head, seed=seed), dependences(8)).head == head
        for head in (0, 1)
        for seed in range(20)
    ]

    assert sum(guided[:20]) > sum(guided[20:])


def test_the_mean_of_all_layers_is_chosen_where_no_layer_agrees_clearly_better() -> None:
    chosen = best_choice(MadeUpReader(1, reads=True, noise=0.01), dependences())

    assert chosen == AttentionChoice((0, 1, 2), reads=True, agreement=1.0)


def test_the_bundled_model_has_the_head_that_is_trained_to_align_whatever_the_measure_prefers() -> None:
    stored, measured = Manifest.read(DEMO_MODEL).attention, measure_attention(DEMO_MODEL, is_guided=True)
    preferred = measure_attention(DEMO_MODEL)

    assert stored is not None
    assert measured is not None
    assert preferred is not None
    assert (stored.layers, stored.reads, stored.head) == ((2,), False, 0)
    assert (measured.layers, measured.reads, measured.head) == (stored.layers, stored.reads, stored.head)
    assert measured.agreement == pytest.approx(stored.agreement, abs=0.05)
    assert preferred.agreement > measured.agreement


def test_a_model_whose_card_says_that_it_was_trained_to_align_gets_that_head(tmp_path: Path) -> None:
    checkpoint = write_marian_checkpoint(tmp_path / "checkpoint", layers=2)
    chosen = []
    for number, card in enumerate(("* model: transformer\n", "* model: transformer-align\n")):
        (checkpoint / "README.md").write_text(card)
        folder = Path(add_model(Request(source=str(checkpoint), name=f"model-{number}"), tmp_path / "models").path)
        chosen.append(Manifest.read(folder).attention)

    without, guided = chosen
    assert guided is not None
    assert (guided.layers, guided.reads, guided.head) == ((1,), False, 0)
    assert without != guided


@pytest.mark.parametrize("family", FAMILIES)
def test_models_of_every_family_are_measured_and_those_without_training_may_have_no_choice(
    family: str, tmp_path: Path
) -> None:
    checkpoint = FAMILIES[family](tmp_path / "checkpoint")

    folder = Path(add_model(Request(source=str(checkpoint), name="model"), tmp_path / "models").path)

    found = Manifest.read(folder).attention
    assert found is None or max(found.layers) < 6
