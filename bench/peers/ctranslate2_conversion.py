"""CTranslate2's converter on a checkpoint of any family that it knows, with a made-up vocabulary: w0, w1, ... by id.

python -m bench.peers.ctranslate2_conversion CHECKPOINT OUT      writes OUT/float32 and OUT/int8
"""

import json
import sys
from pathlib import Path
from typing import Any

from bench.checkpoints.folders import made_once

QUANTIZATION = {"fp32": "float32", "int8": "int8"}


def converted(checkpoint: Path, folder: Path, precision: str) -> Path:
    """The converted model; both precisions are made at once, in a process of their own, unless they are there."""
    command = ["bench.peers.ctranslate2_conversion", str(checkpoint)]
    return made_once(folder / "ctranslate2", lambda out: [*command, str(out)]) / QUANTIZATION[precision]


def words(checkpoint: Path) -> list[str]:
    """The tokens of the converted model, by their ids."""
    return _words(json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))["vocab_size"])


def _words(vocab_size: int) -> list[str]:
    return [f"w{number}" for number in range(vocab_size)]


class _Vocabulary:
    """What the converter asks a tokenizer for."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._words = _words(config["vocab_size"])
        self.bos_token = self._words[config.get("bos_token_id") or 0]
        self.eos_token = self._words[config["eos_token_id"]]
        self.pad_token = self._words[config.get("pad_token_id") or 0]
        self.unk_token_id = 3  # a text has no unknown words here
        self.unk_token = self._words[self.unk_token_id]
        self.special_tokens_map: dict[str, Any] = {}

    def get_vocab(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self._words)}

    def convert_ids_to_tokens(self, token_id: int) -> str:
        return self._words[token_id]


def convert(checkpoint: Path, out: Path) -> None:
    """Write the model in each precision."""
    from ctranslate2.converters import TransformersConverter

    class Converter(TransformersConverter):  # type: ignore[misc]  # no types published
        def load_tokenizer(self, *_: Any, **__: Any) -> _Vocabulary:
            return _Vocabulary(json.loads((checkpoint / "config.json").read_text(encoding="utf-8")))

    out.mkdir(parents=True)
    for quantization in QUANTIZATION.values():
        Converter(str(checkpoint)).convert(str(out / quantization), quantization=quantization)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
