"""CTranslate2's generator on a checkpoint of any causal family that its converter knows."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.harness.fastest import fastest
from bench.peers.ctranslate2_conversion import QUANTIZATION, converted, words
from jobs.system.process import available_cores

_BATCH_SIZES = (8, 16, 32)


@dataclass(frozen=True, slots=True)
class Setting:
    """How the prompts are spread over the cores."""

    workers: int  # inter_threads: batches at the same time
    threads: int  # intra_threads: of each batch
    batch_size: int


class Model:
    """The generator, opened again for another number of threads."""

    def __init__(self, folder: Path, precision: str, tokens: list[str]) -> None:
        self.precision, self.tokens = precision, tokens
        self.setting = Setting(available_cores(), 1, max(_BATCH_SIZES))
        self._folder = folder
        self._opened: dict[tuple[int, int], Any] = {}

    def generator(self, setting: Setting) -> Any:
        """The generator with the threads of a setting."""
        import ctranslate2

        threads = setting.workers, setting.threads
        if threads not in self._opened:
            self._opened[threads] = ctranslate2.Generator(
                str(self._folder),
                compute_type=QUANTIZATION[self.precision],
                inter_threads=setting.workers,
                intra_threads=setting.threads,
            )
        return self._opened[threads]

    def keep(self, setting: Setting) -> None:
        """Use this setting from now on, and free what others need."""
        self.setting = setting
        threads = setting.workers, setting.threads
        self._opened = {threads: self._opened[threads]}


def prepare(checkpoint: Path, folder: Path, precision: str) -> Model:
    """Convert the checkpoint once."""
    return Model(converted(checkpoint, folder, precision), precision, words(checkpoint))


def tune(model: Model, prompts: list[list[int]], new_tokens: int) -> None:
    """A batch per core or one batch on all cores; then the number of prompts in a batch."""
    cores, count = available_cores(), len(prompts)
    layouts = [Setting(*layout, -(-count // layout[0])) for layout in dict.fromkeys([(cores, 1), (1, cores)])]
    best = fastest(layouts, lambda setting: _generate(model, setting, prompts, new_tokens))
    fewer = [replace(best, batch_size=size) for size in _BATCH_SIZES if size < best.batch_size]
    model.keep(fastest([best, *fewer], lambda setting: _generate(model, setting, prompts, new_tokens)))


def generate(model: Model, prompts: list[list[int]], new_tokens: int) -> list[list[int]]:
    """What each prompt is continued with."""
    return _generate(model, model.setting, prompts, new_tokens)


def _generate(model: Model, setting: Setting, prompts: list[list[int]], new_tokens: int) -> list[list[int]]:
    results = model.generator(setting).generate_batch(
        [[model.tokens[token_id] for token_id in prompt] for prompt in prompts],
        max_batch_size=setting.batch_size,
        include_prompt_in_result=False,  # or it would read prompts token by token
        end_token=[],  # no id ends a continuation
        max_length=new_tokens,
    )
    return [result.sequences_ids[0] for result in results]


def configuration(model: Model) -> str:
    import ctranslate2

    setting = model.setting
    isa = ", ".join(f"{name}={os.environ[name]}" for name in sorted(os.environ) if name.startswith("CT2_"))
    return (
        f"CTranslate2 {ctranslate2.__version__} {QUANTIZATION[model.precision]}, inter_threads {setting.workers}, "
        f"intra_threads {setting.threads}, batches of {setting.batch_size}" + (f", {isa}" if isa else "")
    )
