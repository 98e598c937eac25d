"""Record what transformers generates, so that the tests need no torch.

    python tests/golden/make_golden.py                     the four tiny models: weights, exports and ids
    python tests/golden/make_golden.py --demo CHECKPOINT   the ids of the bundled model, from its checkpoint

Needs the extra `train`. Run from the top of the checkout. Versions are recorded with the ids. Each source goes
through transformers alone, so that nothing depends on how it pads a batch.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
import torch
from onnx import TensorProto, helper
from transformers import MarianMTModel

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from bench.checkpoints.models import SHAPES, WITH_A_PAST, Shape, build, export  # noqa: E402

BEAM = {"num_beams": 4, "num_return_sequences": 4}

# Arguments of transformers' `generate`; generation_config.json has the same names.
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"num_beams": 1},
    "greedy, short": {"num_beams": 1, "max_length": 5},
    "greedy, no forced end": {"num_beams": 1, "max_length": 6, "forced_eos_token_id": None},
    "greedy, repetition penalty": {"num_beams": 1, "repetition_penalty": 1.5},
    "greedy, no repeated bigram": {"num_beams": 1, "no_repeat_ngram_size": 2},
    "beam 2": {"num_beams": 2, "num_return_sequences": 2},
    "beam 4": BEAM,
    "beam 4, stop early": {**BEAM, "early_stopping": True},
    "beam 4, never stop": {**BEAM, "early_stopping": "never"},
    "beam 4, never stop, length penalty 0": {**BEAM, "early_stopping": "never", "length_penalty": 0.0},
    "beam 4, length penalty 0.6": {**BEAM, "length_penalty": 0.6},
    "beam 4, length penalty 2": {**BEAM, "length_penalty": 2.0},
    "beam 4, length penalty -1": {**BEAM, "length_penalty": -1.0},
    "beam 4, short": {**BEAM, "max_length": 5},
    "beam 4, short, no forced end": {**BEAM, "max_length": 5, "forced_eos_token_id": None},
    "beam 4, one token": {**BEAM, "max_length": 2, "forced_eos_token_id": None},
    "beam 4, not renormalized": {**BEAM, "renormalize_logits": False},
    "beam 4, minimum length": {**BEAM, "min_length": 9},
    "beam 4, minimum of new tokens": {**BEAM, "min_new_tokens": 9, "max_new_tokens": 19},
    "beam 4, forced beginning": {**BEAM, "forced_bos_token_id": 5},
    "beam 4, repetition penalty": {**BEAM, "repetition_penalty": 1.5},
    "beam 4, repetition penalty, not renormalized": {
        **BEAM, "repetition_penalty": 1.5, "renormalize_logits": False,
    },
    "beam 4, no repeated bigram": {**BEAM, "no_repeat_ngram_size": 2},
    "beam 4, suppressed": {**BEAM, "suppress_tokens": [3, 4, 5], "begin_suppress_tokens": [6, 7, 8, 9]},
    "beam 4, bad sequences": {**BEAM, "bad_words_ids": "pad and pairs"},
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demo", type=Path, metavar="CHECKPOINT")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.demo:
        write_demo(options.demo)
        return
    for name, shape in SHAPES.items():
        if name.startswith("tiny-"):
            write_tiny(name, shape)
    write_counting()


def write_tiny(name: str, shape: Shape) -> None:
    """Write the exports of all layouts into a folder, the weights into a file, the ids of all settings into another."""
    model = build(shape)
    with tempfile.TemporaryDirectory() as checkpoint:
        model.save_pretrained(checkpoint)
        shutil.move(Path(checkpoint, "model.safetensors"), HERE / f"{name}.safetensors")
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    export(model, folder, WITH_A_PAST)
    if name == "tiny-swish-tied":  # one graph exported without a past is enough
        with tempfile.TemporaryDirectory() as plain:
            export(model, Path(plain), "none")
            shutil.move(Path(plain, "decoder_model.onnx"), folder / "decoder_model_without_past.onnx")
    sources = list(draw_sources(shape, 10))
    cases = [
        {
            "name": case,
            "settings": settings,
            "hypotheses": [generate(model, shape.eos_id, ids, settings) for ids in sources],
        }
        for case, settings in ((case, spell_out(model, shape, settings)) for case, settings in SETTINGS.items())
    ]
    write(HERE / f"{name}.json", {"versions": versions(), "sources": sources, "cases": cases})


def draw_sources(shape: Shape, count: int, seed: int = 1) -> Iterable[list[int]]:
    """Sources of 1 to 18 tokens, some of them unlike anything in the training data of the model."""
    rng = random.Random(seed)
    words = [i for i in range(min(48, shape.vocab_size)) if i not in (shape.eos_id, shape.pad_id)]
    for index in range(count):
        yield [*rng.choices(words, k=1 + 17 * index // (count - 1)), shape.eos_id]


def spell_out(model: MarianMTModel, shape: Shape, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings, with placeholders replaced by ids of this model."""
    if settings.get("bad_words_ids") != "pad and pairs":
        return settings
    ids = next(iter(generate(model, shape.eos_id, list(draw_sources(shape, 10))[4], {"num_beams": 1})))["ids"]
    return {**settings, "bad_words_ids": [[shape.pad_id], ids[:2], ids[1:4], ids[2:4]]}


def generate(model: MarianMTModel, eos_id: int, source: list[int], settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The hypotheses of one source, best first: ids without the start, and the score of a beam search."""
    # Beam search in transformers 4.57 divides by `vocab_size`, although the logits have `decoder_vocab_size`.
    source_vocab_size, model.config.vocab_size = model.config.vocab_size, model.config.decoder_vocab_size
    with torch.no_grad():
        output = model.generate(torch.tensor([source]), **settings, return_dict_in_generate=True, output_scores=True)
    model.config.vocab_size = source_vocab_size
    scores = output.sequences_scores.tolist() if settings["num_beams"] > 1 else [None] * len(output.sequences)
    return [
        {"ids": cut(ids[1:], eos_id), **({} if score is None else {"score": round(score, 5)})}
        for ids, score in zip(output.sequences.tolist(), scores, strict=True)
        if score is None or score > -1e8  # below -1e8: a rank without a hypothesis
    ]


def cut(ids: list[int], eos_id: int) -> list[int]:
    """The ids up to the end of sentence, without the padding after it."""
    return ids[: ids.index(eos_id) + 1] if eos_id in ids else ids


def write_counting() -> None:
    """A hand-made model in half precision whose every token is the length of its `decoder_attention_mask`.

    Optimum's Marian graphs have no such input, those of other exporters do. It generates 1 2 3 ... and ends with 11.
    """
    folder = HERE / "counting"
    folder.mkdir(exist_ok=True)
    ids, half = TensorProto.INT64, TensorProto.FLOAT16
    source = [("encoder_attention_mask", ids, ["B", "S"])]
    first = [("input_ids", ids, ["B", "T"]), ("decoder_attention_mask", ids, ["B", "M"])]
    past, present = (
        [
            (f"{name}.0.{side}.{part}", half, ["B", 1, length, 1])
            for side, length in (("decoder", "P"), ("encoder", "S"))
            for part in ("key", "value")
        ]
        for name in ("past_key_values", "present")
    )
    hidden = ("encoder_hidden_states", half, ["B", "S", 1])
    keys = [
        helper.make_node("Cast", ["input_ids"], ["numbers"], to=half),
        helper.make_node("Reshape", ["numbers", "per_head"], ["keys"]),
    ]
    logits = [
        helper.make_node("ReduceSum", ["decoder_attention_mask", "axis_1"], ["length"], keepdims=0),
        helper.make_node("OneHot", ["length", "depth", "off_on"], ["last"]),
        helper.make_node("Unsqueeze", ["last", "axis_1"], ["one"]),
        helper.make_node("Shape", ["input_ids"], ["shape"]),
        helper.make_node("Slice", ["shape", "axis_1", "axis_2"], ["num_ids"]),
        helper.make_node("Concat", ["axis_1", "num_ids", "axis_1"], ["repeats"], axis=0),
        helper.make_node("Tile", ["one", "repeats"], ["logits"]),
    ]
    copies = [helper.make_node("Identity", ["keys"], [f"present.0.decoder.{part}"]) for part in ("key", "value")]
    of_source = [
        helper.make_node("Reshape", ["encoder_hidden_states", "per_head"], [f"present.0.encoder.{part}"])
        for part in ("key", "value")
    ]
    longer = [
        helper.make_node("Concat", [f"past_key_values.0.decoder.{part}", "keys"], [f"present.0.decoder.{part}"], axis=2)
        for part in ("key", "value")
    ]
    encoder = [
        helper.make_node("Cast", ["input_ids"], ["numbers"], to=half),
        helper.make_node("Unsqueeze", ["numbers", "axis_2"], ["last_hidden_state"]),
    ]
    out = ("logits", half, ["B", "T", 12])
    save_graph(
        folder / "encoder_model.onnx", encoder,
        [("input_ids", ids, ["B", "S"]), ("attention_mask", ids, ["B", "S"])],
        [("last_hidden_state", half, ["B", "S", 1])],
    )  # fmt: skip
    save_graph(
        folder / "decoder_model.onnx", keys + logits + copies + of_source, first + source + [hidden], [out, *present]
    )
    save_graph(
        folder / "decoder_with_past_model.onnx", keys + logits + longer, first + source + past, [out, *present[:2]]
    )
    config = {"eos_token_id": 11, "pad_token_id": 0, "decoder_start_token_id": 0, "max_position_embeddings": 64}
    (folder / "config.json").write_text(json.dumps(config) + "\n")


def save_graph(file: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> None:
    constants = [
        helper.make_tensor("axis_1", TensorProto.INT64, [1], [1]),
        helper.make_tensor("axis_2", TensorProto.INT64, [1], [2]),
        helper.make_tensor("depth", TensorProto.INT64, [], [12]),
        helper.make_tensor("off_on", TensorProto.FLOAT16, [2], [0.0, 10.0]),
        helper.make_tensor("per_head", TensorProto.INT64, [4], [0, 1, -1, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "counting",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*value) for value in outputs],
        constants,
    )
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model)
    onnx.save(model, str(file))


def write_demo(checkpoint: Path) -> None:
    """Ids of the bundled model, greedy and beam 4, on sentences that it was not trained on."""
    from tools.demo.grammar import unseen_bulletins
    from worker.text.translation.marian_tokenizer import MarianTokenizer

    model = MarianMTModel.from_pretrained(checkpoint).eval()
    tokenizer = MarianTokenizer.open(HERE.parents[1] / "worker/demo/en-zh")
    texts = [pair.english for bulletin in unseen_bulletins(6, seed=20) for pair in bulletin.sentences][:24]
    sources = [tokenizer.encode(text, None) for text in texts]
    eos_id = model.config.eos_token_id
    names = ("greedy", "beam 4", "beam 4, short", "beam 4, length penalty 2")
    cases = [
        {
            "name": name,
            "settings": SETTINGS[name],
            "hypotheses": [generate(model, eos_id, ids, SETTINGS[name]) for ids in sources],
        }
        for name in names
    ]
    write(HERE / "demo-en-zh.json", {"versions": versions(), "texts": texts, "sources": sources, "cases": cases})


def versions() -> dict[str, str]:
    return {name: version(name) for name in ("torch", "transformers", "optimum-onnx", "onnx", "onnxruntime")}


def write(file: Path, value: dict[str, Any]) -> None:
    """Write JSON with one source, or the hypotheses of one source, per line."""
    parts = []
    for key, content in value.items():
        if key == "cases":
            cases = []
            for case in content:
                lines = ",\n    ".join(json.dumps(line, ensure_ascii=False) for line in case["hypotheses"])
                head = f'{{"name": {json.dumps(case["name"])}, "settings": {json.dumps(case["settings"])},'
                cases.append(f'  {head}\n   "hypotheses": [\n    {lines}]}}')
            parts.append('"cases": [\n' + ",\n".join(cases) + "]")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(content, ensure_ascii=False)}")
    file.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
