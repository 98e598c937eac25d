"""CTranslate2's translator on a checkpoint of any seq2seq family; how it runs and tunes is as with a Marian."""

import json
from pathlib import Path

from bench.peers.ctranslate2_conversion import converted, words
from bench.peers.peer_ctranslate2 import Model, Settings, configuration, run, tune
from jobs.system.process import available_cores

__all__ = ["configuration", "prepare", "run", "tune"]


def prepare(checkpoint: Path, folder: Path, precision: str) -> Model:
    """Convert the checkpoint once, and open it."""
    tokens = words(checkpoint)
    generation = json.loads((checkpoint / "generation_config.json").read_text(encoding="utf-8"))
    cores = available_cores()
    return Model(
        folder=converted(checkpoint, folder, precision),
        precision=precision,
        tokens=tokens,
        ids={token: token_id for token_id, token in enumerate(tokens)},
        eos=tokens[generation["eos_token_id"]],
        max_length=generation["max_length"],
        settings={False: Settings(cores, 1, 32), True: Settings(cores, 1, 8)},
    )
