"""Record the log-probabilities of given translations in transformers, so that the tests need no torch.

    python tests/golden/make_forced_golden.py

Needs the extra `train`. Run from the top of the checkout. Writes `forced.json` beside this script: for each tiny
model pairs of ids, for the bundled model pairs of texts, and for each pair log p of every target token: log_softmax
of the logits. Each pair goes through transformers alone, so that nothing depends on how it pads a batch.
"""

import json
import random
import shutil
import sys
import tempfile
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from transformers import MarianMTModel, MarianTokenizer

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from bench.checkpoints.demo_checkpoint import DEMO, recover  # noqa: E402

FAMILIES = ("tiny-swish-tied", "tiny-relu-tied", "tiny-swish-separate", "tiny-relu-separate")

Ids = list[int]


def main() -> None:
    torch.set_num_threads(1)
    golden: dict[str, Any] = {"versions": {name: version(name) for name in ("torch", "transformers")}}
    for family in FAMILIES:
        model = open_tiny(family)
        golden[family] = [
            {"source": source, "target": target, "log_probs": log_probs(model, source, target)}
            for source, target in draw_pairs(model, 14)
        ]
    with tempfile.TemporaryDirectory() as name:
        recover(DEMO, Path(name))
        model, tokenizer = MarianMTModel.from_pretrained(name).eval(), MarianTokenizer.from_pretrained(name)
    golden["demo-en-zh"] = []
    for source, target in demo_pairs():
        ids = tokenizer(source)["input_ids"], tokenizer(text_target=target)["input_ids"]
        golden["demo-en-zh"].append({"source": source, "target": target, "log_probs": log_probs(model, *ids)})
    parts = [
        f"{json.dumps(name)}: [\n " + ",\n ".join(json.dumps(pair, ensure_ascii=False) for pair in pairs) + "]"
        if isinstance(pairs, list)
        else f"{json.dumps(name)}: {json.dumps(pairs)}"
        for name, pairs in golden.items()
    ]
    (HERE / "forced.json").write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


def open_tiny(family: str) -> MarianMTModel:
    """The tiny model in transformers, with the weights of the golden files."""
    with tempfile.TemporaryDirectory() as name:
        for file in ("config.json", "generation_config.json"):
            shutil.copy(HERE / family / file, name)
        shutil.copy(HERE / f"{family}.safetensors", Path(name, "model.safetensors"))
        return MarianMTModel.from_pretrained(name).eval()


def draw_pairs(model: MarianMTModel, count: int) -> list[tuple[Ids, Ids]]:
    """Pairs of 1 to 24 tokens per side, also long with short. A target may contain any id, padding included."""
    config, rng = model.config, random.Random(3)
    words = [i for i in range(48) if i not in (config.eos_token_id, config.pad_token_id)]
    pairs = []
    for index in range(count):
        source = [*rng.choices(words, k=23 * index // (count - 1)), config.eos_token_id]
        target = [rng.randrange(config.decoder_vocab_size) for _ in range(rng.choice((len(source) - 1, 23, 2, 0)))]
        pairs.append((source, [*target, config.eos_token_id]))
    return pairs


def demo_pairs() -> list[tuple[str, str]]:
    """Correct translations, wrong ones, and texts that are no translations."""
    from tools.demo.grammar import unseen_bulletins

    right = [pair for bulletin in unseen_bulletins(3, seed=21) for pair in bulletin.sentences][:8]
    pairs = [(pair.english, pair.chinese) for pair in right]
    pairs += [(pair.english, other.chinese) for pair, other in pairwise(right[:5])]
    return [*pairs, (right[0].english, right[0].english), (right[0].english, ""), ("", right[0].chinese), ("☃", "☃ x")]


def log_probs(model: MarianMTModel, source: Ids, target: Ids) -> list[float]:
    """The natural log-probability of each target token."""
    fed = torch.tensor([[model.config.decoder_start_token_id, *target[:-1]]])
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([source]), decoder_input_ids=fed).logits[0]
    found = torch.log_softmax(logits, dim=-1)[torch.arange(len(target)), torch.tensor(target)]
    return [round(one, 6) for one in found.tolist()]


if __name__ == "__main__":
    main()
