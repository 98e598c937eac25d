"""`models add`, inspect, verify and admission of cross-encoders."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from jobs.errors import ModelError, SpecError
from jobs.tasks.rerank import Method, RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.cross_encoder_checkpoints import ARCHITECTURES, POSITIONS, write_cross_encoder_checkpoint
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Added, Request, add_model
from worker.model_tools.admission import admit
from worker.model_tools.inspect.inspect import inspect_model
from worker.model_tools.verify import references
from worker.model_tools.verify.checks import Verdict
from worker.model_tools.verify.cross_encoder import VerifiedCrossEncoder
from worker.model_tools.verify.verify import verify
from worker.models.contents.required_files import check_files
from worker.models.contents.summary import summarize
from worker.models.registry import find_model


@pytest.fixture(autouse=True)
def _without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numpy reference, whatever is installed."""
    monkeypatch.setattr(references, "_has_transformers", lambda: False)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_cross_encoder_checkpoint(tmp_path / "tiny", "bert")


def add(checkpoint: Path, **options: Any) -> Added:
    return add_model(Request(source=str(checkpoint), **options), checkpoint.parent / "models")


def graph_and_weights(added: Added) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in Path(added.path).iterdir() if file.suffix in (".onnx", ".data")}


def edit(file: Path, **values: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_a_checkpoint_of_each_family_becomes_a_model_that_is_verified(tmp_path: Path, family: str) -> None:
    added = add(write_cross_encoder_checkpoint(tmp_path / "tiny", family))
    folder = find_model("tiny", tmp_path / "models")

    check_files(folder)
    described, summary, family_part = inspect_model(folder), summarize(folder), VerifiedCrossEncoder()
    assert (added.kind, added.layout, added.precision) == ("cross-encoder", "kv", "fp32")
    assert (described.problems, described.architecture, described.layout) == ((), family, "kv")
    assert (described.max_positions, described.pair_length) == (POSITIONS, POSITIONS)
    assert (summary.kind, summary.tasks, summary.problem) == ("cross-encoder", ("rerank",), None)
    checks = list(verify(folder, family_part.read_sample(folder, None, 12), family_part))
    assert [(check.name, check.verdict) for check in checks] == [
        ("packed", Verdict.SAME),
        ("checkpoint", Verdict.SAME),
    ]


def test_verify_measures_what_int8_costs(checkpoint: Path) -> None:
    added, family = add(checkpoint, precision=Precision.INT8), VerifiedCrossEncoder()
    folder = find_model(added.name, checkpoint.parent / "models")

    checks = {check.name: check for check in verify(folder, family.read_sample(folder, None, 12), family)}

    assert {name: check.verdict for name, check in checks.items()} == dict.fromkeys(
        ("packed", "checkpoint", "precision"), Verdict.MEASURED
    )
    assert checks["packed"].worst == pytest.approx(0, abs=1e-4)
    assert 1e-4 < (checks["precision"].worst or 0) < 0.5
    relevance = checks["precision"].relevance
    assert relevance is not None
    assert (relevance.num_queries, relevance.num_pairs) == (6, 13)  # the last pair is one of the first query
    assert 0 < relevance.mean < relevance.worst


def test_verify_finds_a_graph_of_other_weights(checkpoint: Path) -> None:
    folder, family = find_model(add(checkpoint).name, checkpoint.parent / "models"), VerifiedCrossEncoder()
    run = family.run(folder, family.read_sample(folder, None, 4))
    weights = load_file(checkpoint / "model.safetensors")
    weights["bert.encoder.layer.1.output.dense.weight"][0, 0] += 5
    save_file(weights, checkpoint / "model.safetensors")

    assert run.check_checkpoint(checkpoint).verdict is Verdict.DIFFERS


def test_the_method_follows_from_the_kind_of_the_model(checkpoint: Path) -> None:
    models_dir = Path(add(checkpoint).path).parent

    assert admit(Task.RERANK, "tiny", models_dir, RerankOptions()).options == RerankOptions(method=Method.CROSS_ENCODER)
    assert admit(Task.RERANK, None, models_dir, RerankOptions()).options == RerankOptions(
        method=Method.QUERY_LIKELIHOOD
    )
    with pytest.raises(SpecError, match=r"perplexity .*tiny .*--method cross-encoder"):
        admit(Task.RERANK, "tiny", models_dir, RerankOptions(method=Method.PERPLEXITY))
    with pytest.raises(SpecError, match=r"cross-encoder .*causal.*--method query-likelihood"):
        admit(Task.RERANK, None, models_dir, RerankOptions(method=Method.CROSS_ENCODER))
    with pytest.raises(SpecError, match=r"score .*tiny .*cross-encoder"):
        admit(Task.SCORE, "tiny", models_dir, ScoreOptions())
    with pytest.raises(SpecError, match="has no template"):
        admit(Task.RERANK, "tiny", models_dir, RerankOptions(template="{document} {query}"))


def test_the_pooler_of_pretraining_is_left_out_and_other_tensors_are_refused(tmp_path: Path) -> None:
    checkpoint = write_cross_encoder_checkpoint(tmp_path / "tiny", "roberta")
    weights = load_file(checkpoint / "model.safetensors")
    save_file(weights | {"roberta.pooler.dense.weight": np.ones((2, 2), "f")}, checkpoint / "model.safetensors")
    add(checkpoint)

    save_file(weights | {"roberta.adapter.weight": np.ones((2, 2), "f")}, checkpoint / "model.safetensors")
    with pytest.raises(ModelError, match=r"roberta network .*roberta\.adapter\.weight"):
        add(checkpoint, force=True)


def test_norms_by_their_old_names_give_the_same_graph(tmp_path: Path) -> None:
    checkpoint = write_cross_encoder_checkpoint(tmp_path / "tiny", "bert")
    today = graph_and_weights(add(checkpoint))
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    weights = load_file(checkpoint / "model.safetensors")
    for name in [name for name in weights if name.endswith(tuple(old))]:
        end = next(end for end in old if name.endswith(end))
        weights[name.removesuffix(end) + old[end]] = weights.pop(name)
    save_file(weights, checkpoint / "model.safetensors")

    assert graph_and_weights(add(checkpoint, force=True)) == today


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        ("config.json", {"id2label": {"0": "a", "1": "b"}}, "a classifier of 2 classes"),
        ("config.json", {"auto_map": {"AutoModel": "x.Y"}}, "brings code of its own"),
        ("config.json", {"vocab_size": 20}, "the tensor .*word_embeddings.weight has the shape"),
        ("config.json", {"sentence_transformers": {"activation_fn": "my.Code"}}, "activation function my.Code"),
        ("tokenizer.json", {"post_processor": None}, "does not say how a pair of texts is put together"),
        ("tokenizer_config.json", {"truncation_side": "middle"}, "has truncation_side 'middle'"),
    ],
)
def test_what_the_graph_cannot_follow_is_refused(
    checkpoint: Path, file: str, values: dict[str, Any], message: str
) -> None:
    edit(checkpoint / file, **values)

    with pytest.raises(ModelError, match=message):
        add(checkpoint)


def test_token_types_that_the_model_does_not_have_are_refused(tmp_path: Path) -> None:
    checkpoint = write_cross_encoder_checkpoint(tmp_path / "tiny", "roberta")
    bert = write_cross_encoder_checkpoint(tmp_path / "bert", "bert")
    template = json.loads((bert / "tokenizer.json").read_text())["post_processor"]
    edit(checkpoint / "tokenizer.json", post_processor=template)
    add(checkpoint)  # a RobertaTokenizer gives no types

    edit(checkpoint / "tokenizer_config.json", model_input_names=["input_ids", "token_type_ids"])
    with pytest.raises(ModelError, match=r"0 to 1.*knows 1"):
        add(checkpoint, force=True)


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta"])
def test_padding_that_is_a_token_of_pairs_is_refused_where_positions_leave_it_out(tmp_path: Path, family: str) -> None:
    """The tokenizer begins pairs with <s>, which is 0."""
    checkpoint = write_cross_encoder_checkpoint(tmp_path / "tiny", family, pad_token_id=0)

    with pytest.raises(ModelError, match=r"id 0.*pad_token_id"):
        add(checkpoint)


def test_an_export_of_a_cross_encoder_is_refused_by_name(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").unlink()
    (checkpoint / "model.onnx").write_bytes(b"")

    with pytest.raises(ModelError, match=r"cross-encoder .*weights.*checkpoint"):
        add(checkpoint)


def test_special_tokens_in_a_text_are_plain_text(checkpoint: Path) -> None:
    from worker.text.text_pair_tokenizer import TextPairTokenizer

    tokenizer = TextPairTokenizer.open(checkpoint)

    assert not {2, 3, 4} & {*tokenizer.encode("the rain [SEP] [CLS] [MASK] snow")}  # [UNK] is 1
    assert tokenizer.encode("Rain") == tokenizer.encode("rain")  # do_lower_case of the class
