"""CTranslate2, converted by its own converter.

python -m bench.peers.peer_ctranslate2 CHECKPOINT int8|float32 OUT      only converts
"""

import json
import os
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.checkpoints.folders import made_once
from jobs.system.process import available_cores

QUANTIZATION = {"fp32": "float32", "int8": "int8"}
_LONGEST = 256  # target tokens, where the model's own configuration names no bound
_FEW, _FEW_TRIALS = 16, 5  # segments, and how often each setting is tried with so few
_GAIN = 1.01  # a setting is taken if it gains this much: less is noise


@dataclass(frozen=True, slots=True)
class Settings:
    """What `tune` chooses."""

    workers: int  # inter_threads: batches at the same time
    threads: int  # intra_threads: of each batch
    batch_size: int
    batch_type: str = "examples"


@dataclass(slots=True)
class Model:
    folder: Path
    precision: str
    tokens: list[str]
    ids: dict[str, int]
    eos: str
    max_length: int
    settings: dict[bool, Settings] = field(default_factory=dict)  # by whether it is a beam search
    translator: Any = None
    threads: tuple[int, int] = (0, 0)  # of `translator`


def prepare(checkpoint: Path, folder: Path, precision: str) -> Model:
    """Convert the checkpoint once, and open it."""
    quantization = QUANTIZATION[precision]
    command = ["bench.peers.peer_ctranslate2", str(checkpoint), quantization]
    converted = made_once(folder / f"ctranslate2-{quantization}", lambda out: [*command, str(out)])
    vocabulary = json.loads((checkpoint / "vocab.json").read_text(encoding="utf-8"))
    config = json.loads((checkpoint / "generation_config.json").read_text(encoding="utf-8"))
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    model = Model(
        folder=converted,
        precision=precision,
        tokens=tokens,
        ids=vocabulary,
        eos=tokens[config["eos_token_id"]],
        max_length=config.get("max_length", _LONGEST) - 1,
    )
    cores = available_cores()
    model.settings = {False: Settings(cores, 1, 64), True: Settings(cores, 1, 16)}
    return model


def run(model: Model, segments: list[list[int]], *, beams: int, forced_length: int | None) -> list[list[int]]:
    """Translate with the best settings found so far."""
    settings = model.settings[beams > 1]
    source = [[model.tokens[token_id] for token_id in ids] for ids in segments]
    results = _translator(model, settings).translate_batch(
        source,
        max_batch_size=settings.batch_size,
        batch_type=settings.batch_type,
        beam_size=beams,
        # It does not end before its minimum length.
        min_decoding_length=forced_length or 1,
        max_decoding_length=forced_length or model.max_length,
    )
    return [[model.ids[token] for token in result.hypotheses[0]] for result in results]


def tune(model: Model, segments: list[list[int]], *, beams: int, forced_length: int | None) -> None:
    """Raise or lower a middle batch size while that gains; then try one batch on all cores; then batches by tokens.
    A few segments are one batch on all cores, or spread over the cores."""
    if len(segments) <= _FEW:
        _tune_for_few(model, segments, beams, forced_length)
        return
    rates: dict[Settings, float] = {}

    def better(some: Settings, than: Settings) -> Settings:
        for settings in (than, some):
            if settings not in rates:
                model.settings[beams > 1] = settings
                run(model, segments[: 2 * settings.workers], beams=beams, forced_length=forced_length)
                rates[settings] = _rate(model, segments, beams, forced_length)
        return some if rates[some] > _GAIN * rates[than] else than

    best = model.settings[beams > 1]
    largest = max(1, len(segments) // best.workers)  # else some cores are idle
    for factor in (2.0, 0.5):
        before = best
        while 1 <= (size := int(best.batch_size * factor)) <= largest and size <= 512:
            if (found := better(replace(best, batch_size=size), best)) is best:
                break
            best = found
        if best is not before:
            break  # it went up: smaller ones were left behind
    best = better(replace(best, workers=best.threads, threads=best.workers), best)
    lengths = [len(ids) for ids in segments]
    if min(lengths) < max(lengths):  # else the batches would be the same
        tokens = best.batch_size * sum(lengths) // len(lengths)
        best = better(replace(best, batch_size=tokens, batch_type="tokens"), best)
    model.settings[beams > 1] = best


def _tune_for_few(model: Model, segments: list[list[int]], beams: int, forced_length: int | None) -> None:
    cores, rates = available_cores(), {}
    spread = Settings(cores, 1, -(-len(segments) // cores))
    for settings in dict.fromkeys((spread, Settings(1, cores, len(segments)))):
        model.settings[beams > 1] = settings
        run(model, segments, beams=beams, forced_length=forced_length)
        rates[settings] = max(_rate(model, segments, beams, forced_length) for _ in range(_FEW_TRIALS))
    model.settings[beams > 1] = max(rates, key=rates.__getitem__)


def configuration(model: Model, *, beams: int) -> str:
    import ctranslate2

    settings = model.settings[beams > 1]
    isa = ", ".join(f"{name}={os.environ[name]}" for name in sorted(os.environ) if name.startswith("CT2_"))
    return (
        f"CTranslate2 {ctranslate2.__version__} {QUANTIZATION[model.precision]}, inter_threads {settings.workers}, "
        f"intra_threads {settings.threads}, batches of {settings.batch_size} {settings.batch_type}"
        + (f", {isa}" if isa else "")
    )


def convert(checkpoint: Path, out: Path, quantization: str) -> None:
    """Use CTranslate2's converter, changed to keep the start embedding where that is not zero."""
    from ctranslate2.converters import transformers as converters
    from safetensors import safe_open

    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    with safe_open(str(checkpoint / "model.safetensors"), "np") as weights:
        start = weights.get_slice("model.shared.weight")[config["decoder_start_token_id"]]
    if start.any():
        _keep_padding(converters)
    converters.TransformersConverter(str(checkpoint)).convert(str(out), quantization=quantization)


def _keep_padding(converters: Any) -> None:
    """The converter takes the start of a Marian's decoder to be zero, as OPUS-MT trains it, and drops padding from the
    vocabulary. A model trained with transformers starts with the learnt embedding of padding. So keep that, and forbid
    it as a token by a bias, which costs nothing."""

    class Loader(converters.MarianMTLoader):
        def get_model_spec(self, model: Any) -> Any:
            model.config.normalize_before = model.config.normalize_embedding = False
            model.final_logits_bias[0, model.config.pad_token_id] = -1e9
            return super(converters.MarianMTLoader, self).get_model_spec(model)

        def set_decoder(self, spec: Any, decoder: Any) -> None:
            super(converters.MarianMTLoader, self).set_decoder(spec, decoder)

        def set_config(self, config: Any, model: Any, tokenizer: Any) -> None:
            super().set_config(config, model, tokenizer)
            config.decoder_start_token = tokenizer.pad_token

        def get_vocabulary(self, model: Any, tokenizer: Any) -> list[str]:
            return list(super(converters.MarianMTLoader, self).get_vocabulary(model, tokenizer))

    converters.register_loader("MarianConfig")(Loader)


def _translator(model: Model, settings: Settings) -> Any:
    import ctranslate2

    if model.threads != (settings.workers, settings.threads):
        model.translator = None  # first, so that there are never two in memory
        model.translator = ctranslate2.Translator(
            str(model.folder),
            compute_type=QUANTIZATION[model.precision],
            inter_threads=settings.workers,
            intra_threads=settings.threads,
        )
        model.threads = (settings.workers, settings.threads)
    return model.translator


def _rate(model: Model, segments: list[list[int]], beams: int, forced_length: int | None) -> float:
    started = time.perf_counter()
    found = run(model, segments, beams=beams, forced_length=forced_length)
    return sum(map(len, found)) / (time.perf_counter() - started)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[3]), quantization=sys.argv[2])
