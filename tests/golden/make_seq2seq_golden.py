"""Record what transformers generates with tiny models of the seq2seq families besides Marian, how it scores given
targets, and the ids of its tokenizers, so that the tests need no torch.

    python tests/golden/make_seq2seq_golden.py

Needs the extra `train`. Run from the top of the checkout. Writes `seq2seq.json` beside this script. The checkpoints are
written by `tests.seq2seq_checkpoints`, from a seed. Each source goes through transformers alone.
"""

import base64
import json
import random
import sys
import tempfile
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.seq2seq_checkpoints import FAMILIES, PREFIXES, TEXTS, TOKENIZERS, spm_kind, train_spm  # noqa: E402

BEAM = {"num_beams": 4, "num_return_sequences": 4}
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"num_beams": 1},
    "greedy, forced beginning": {"num_beams": 1, "forced_bos_token_id": 7},
    "beam 4, forced beginning": {**BEAM, "forced_bos_token_id": 7},
    "beam 4, length penalty 0.6, never stop": {**BEAM, "length_penalty": 0.6, "early_stopping": "never"},
    "beam 4, forced end": {**BEAM, "max_length": 9, "forced_eos_token_id": "eos"},
    "beam 4, no repeated bigram": {**BEAM, "no_repeat_ngram_size": 2},
}
MORE_TEXTS = ("", " ", "hello  world <x> ", "① ｆｕｌｌ a\u0301", "😀 ok\tq\nz", "rain.rain,, 7")


def main() -> None:
    torch.set_num_threads(1)
    golden: dict[str, Any] = {"versions": {name: version(name) for name in ("torch", "transformers", "tokenizers")}}
    golden["spm"] = {}
    with tempfile.TemporaryDirectory() as name:
        for family, write in FAMILIES.items():
            golden[family] = record_model(AutoModelForSeq2SeqLM.from_pretrained(write(Path(name, family))).eval())
        golden["tokenizers"] = {}
        for kind, (write_tokenizer, family, source, target) in TOKENIZERS.items():
            spm = train_spm(family, normalization_rule_name="identity")  # whose table would have 240 KB
            golden["spm"][spm_kind(family)] = base64.b64encode(spm).decode()
            folder = Path(name, f"{kind}-tokenizer")
            folder.mkdir()
            write_tokenizer(folder, spm)
            tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=kind == "bart")
            golden["tokenizers"][kind] = record_tokenizer(tokenizer, source, target, PREFIXES.get(kind, ""))
            if (written := folder / "tokenizer.json").is_file():  # of which no seed gives the same
                golden["tokenizers"][kind]["tokenizer.json"] = written.read_text(encoding="utf-8")
    (HERE / "seq2seq.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n", encoding="utf-8")


def record_model(model: Any) -> dict[str, Any]:
    rng = random.Random(1)
    words, end = range(4, 100), model.config.eos_token_id
    sources = [[*rng.choices(words, k=1 + 3 * place), end] for place in range(6)]
    targets = [[*rng.choices(words, k=1 + place), end] for place in range(6)]
    settings_by_name = {
        case: {name: end if value == "eos" else value for name, value in settings.items()}
        for case, settings in SETTINGS.items()
    }
    return {
        "sources": sources,
        "cases": [
            {
                "name": case,
                "settings": settings,
                "hypotheses": [generate(model, source, settings) for source in sources],
            }
            for case, settings in settings_by_name.items()
        ],
        "pairs": [
            {"source": source, "target": target, "log_probs": log_probs(model, source, target)}
            for source, target in zip(sources, targets, strict=True)
        ],
    }


def generate(model: Any, source: list[int], settings: dict[str, Any]) -> list[dict[str, Any]]:
    arguments = {**settings, "return_dict_in_generate": True, "output_scores": True}
    with torch.no_grad():
        found = model.generate(torch.tensor([source]), **arguments)
    rows = [ids[1:] for ids in found.sequences.tolist()]
    end = model.config.eos_token_id
    rows = [ids[: ids.index(end) + 1] if end in ids else ids for ids in rows]
    if settings["num_beams"] == 1:
        return [{"ids": ids} for ids in rows]
    return [{"ids": ids, "score": score} for ids, score in zip(rows, found.sequences_scores.tolist(), strict=True)]


def log_probs(model: Any, source: list[int], target: list[int]) -> list[float]:
    start = model.config.decoder_start_token_id
    with torch.no_grad():
        logits = model(torch.tensor([source]), decoder_input_ids=torch.tensor([[start, *target[:-1]]])).logits[0]
    found = torch.log_softmax(logits, -1)[torch.arange(len(target)), torch.tensor(target)]
    return [round(one, 6) for one in found.tolist()]


def record_tokenizer(tokenizer: Any, source: str | None, target: str | None, prefix: str) -> dict[str, Any]:
    if source is not None:
        tokenizer.src_lang, tokenizer.tgt_lang = source, target
    rng = random.Random(1)
    texts = [*TEXTS, *MORE_TEXTS, *(f"{one} {another}" for one, another in pairwise(TEXTS))]
    ids = [[rng.randrange(4, 90) for _ in range(9)] for _ in range(8)]
    return {
        "source": source,
        "target": target,
        "encoded": [{"text": text, "ids": tokenizer(prefix + text)["input_ids"]} for text in texts],
        "targets": [{"text": text, "ids": tokenizer(text_target=text)["input_ids"]} for text in texts],
        "decoded": [{"ids": one, "text": tokenizer.decode(one, skip_special_tokens=True)} for one in ids],
    }


if __name__ == "__main__":
    main()
