"""Every family of cross-encoders, compared with transformers and with sentence-transformers."""

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.cross_encoder_checkpoints import POSITIONS, SETTINGS, write_cross_encoder_checkpoint
from worker.engine.cross_encoder.model import CrossEncoder, CrossEncoderScorer, PairIds, PairLimits, score_all
from worker.engine.cross_encoder.pair_reader import open_pair_reader
from worker.engine.runtime.run_context import RunContext
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.verify.references import open_cross_encoder_reference

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

WIDE = {"hidden_size": 96, "intermediate_size": 160, "num_attention_heads": 6, "layers": 4}
LETTERS = "abcdefghij rain snow wind the in north south 雪 ö, ."


@pytest.mark.parametrize("name", SETTINGS)
def test_every_pair_has_the_logit_of_transformers(tmp_path: Path, name: str) -> None:
    """Four layers, pairs of all lengths, packed and alone; in int8 and fp16 near it."""
    settings = SETTINGS[name] | WIDE
    checkpoint = write_cross_encoder_checkpoint(tmp_path / "checkpoint", seed=11, spread=1.0, **settings)
    _, report = transformers.AutoModelForSequenceClassification.from_pretrained(checkpoint, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    reference = open_cross_encoder_reference(checkpoint)
    rng = np.random.default_rng(3)
    for precision, far in ((Precision.FP32, 1e-5), (Precision.INT8, 0.3), (Precision.FP16, 0.03)):
        added = add_model(Request(source=str(checkpoint), precision=precision, name=precision), tmp_path / "models")
        model = CrossEncoder.open(Path(added.path))
        pairs = [
            PairIds(
                rng.integers(5, model.vocab_size, length).tolist(),
                [int(model.token_types > 1 and 2 * place > length) for place in range(length)],
            )
            for length in (POSITIONS, 3, *range(4, POSITIONS, 7))
        ]
        wanted = [reference.logit(pair.ids, pair.types) for pair in pairs]
        for limits in (PairLimits(), PairLimits(tokens=1), PairLimits(tokens=150, padded=200)):
            found = score_all(CrossEncoderScorer(model.session, limits), pairs, RunContext())
            assert found == pytest.approx(wanted, abs=far)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_pair_has_the_ids_and_the_score_of_sentence_transformers(tmp_path: Path, name: str) -> None:
    """Texts of all lengths, up to far beyond what the model reads."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    checkpoint = write_cross_encoder_checkpoint(tmp_path / "checkpoint", seed=12, **SETTINGS[name])
    theirs = sentence_transformers.CrossEncoder(str(checkpoint), device="cpu")
    path = Path(add_model(Request(source=str(checkpoint)), tmp_path / "models").path)
    model = CrossEncoder.open(path)
    reader = open_pair_reader(path, model)
    rng = np.random.default_rng(4)
    texts = ["".join(rng.choice(list(LETTERS), length)) + "a" for length in rng.integers(0, 150, 80)]
    pairs = list(zip(texts[::2], texts[1::2], strict=True))

    ours = [
        reader.tokenizer.join(reader.tokenizer.encode(query), reader.tokenizer.encode(document), reader.max_length)
        for query, document in pairs
    ]

    assert [one.ids for one in ours] == [theirs.preprocess([pair])["input_ids"][0].tolist() for pair in pairs]
    logits = score_all(model.new_scorer(), [PairIds(one.ids, one.types) for one in ours], RunContext())
    assert [reader.score(logit) for logit in logits] == pytest.approx(theirs.predict(pairs).tolist(), abs=1e-5)
    assert sum(one.is_cut for one in ours) > 5


def test_a_model_that_sentence_transformers_saved_keeps_its_settings(tmp_path: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    checkpoint = write_cross_encoder_checkpoint(tmp_path / "checkpoint", "bert", seed=13)
    theirs = sentence_transformers.CrossEncoder(
        str(checkpoint), device="cpu", max_length=20, activation_fn=torch.nn.Identity()
    )
    theirs.save_pretrained(str(tmp_path / "saved"))
    path = Path(add_model(Request(source=str(tmp_path / "saved")), tmp_path / "models").path)

    model = CrossEncoder.open(path)
    reader = open_pair_reader(path, model)
    pair = reader.tokenizer.join(reader.tokenizer.encode("rain?"), reader.tokenizer.encode("snow " * 40), 20)
    (logit,) = score_all(model.new_scorer(), [PairIds(pair.ids, pair.types)], RunContext())

    assert json.loads((path / "config_sentence_transformers.json").read_text())["activation_fn"].endswith("Identity")
    assert reader.max_length == 20
    assert reader.score(logit) == pytest.approx(float(theirs.predict([("rain?", "snow " * 40)])[0]), abs=1e-5)
