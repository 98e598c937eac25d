"""Random Marian models of a given size, seeded, exported as published models are: for benchmarks and for tests.

    python -m bench.checkpoints.models opus-shaped --out /tmp/opus-shaped [--layout merged|two|none|checkpoint]
    python -m bench.checkpoints.models tiny-swish-tied --out /tmp/tiny

Needs the extra `train` (torch, transformers, Optimum). The output of such a model is noise, but it takes as long as a
trained model of the same size, and what a cache, a batch or a beam changes in its ids is real.
"""

import argparse
import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from optimum.exporters.onnx import main_export
from transformers import MarianConfig, MarianMTModel

from bench.checkpoints.natural_ends import LENGTH_WORDS, end_naturally
from bench.checkpoints.shapes import SHAPES, Shape
from bench.checkpoints.tokenizer import FILES, write_tokenizer
from worker.model_tools.add.target_ids import target_ids

CHECKPOINT = "checkpoint"  # a Hugging Face checkpoint, which exporters and converters read
LAYOUTS = {
    "merged": ("encoder_model.onnx", "decoder_model_merged.onnx"),
    "two": ("encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx"),
    "none": ("encoder_model.onnx", "decoder_model.onnx"),
}
WITH_A_PAST = "with a past"  # the files of merged and two, which are of one export
_EXPORTED = {**LAYOUTS, WITH_A_PAST: tuple(dict.fromkeys(LAYOUTS["merged"] + LAYOUTS["two"]))}


def build(shape: Shape, seed: int = 0) -> MarianMTModel:
    """A Marian model with random weights, trained as its shape says; the same seed gives the same weights."""
    torch.manual_seed(seed)
    config = MarianConfig(
        vocab_size=shape.vocab_size,
        decoder_vocab_size=shape.target_vocab_size or shape.vocab_size,
        share_encoder_decoder_embeddings=shape.target_vocab_size is None,
        tie_word_embeddings=shape.target_vocab_size is None,
        d_model=shape.width,
        encoder_layers=shape.encoder_layers,
        decoder_layers=shape.decoder_layers,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        encoder_ffn_dim=shape.ffn,
        decoder_ffn_dim=shape.ffn,
        activation_function=shape.activation,
        max_position_embeddings=shape.max_positions,
        scale_embedding=True,
        dropout=0.0,
        init_std=shape.spread,
        eos_token_id=shape.eos_id,
        forced_eos_token_id=shape.eos_id,
        pad_token_id=shape.pad_id,
        decoder_start_token_id=shape.pad_id,
    )
    model = MarianMTModel(config).eval()
    if shape.lessons:
        model.final_logits_bias.normal_(std=0.1)  # all zero in some published models, not in all
        _teach(model, shape, seed)
    # As the published opus-mt models have it.
    model.generation_config.max_length = shape.max_length
    model.generation_config.num_beams = 4
    model.generation_config.bad_words_ids = [[shape.pad_id]]
    model.generation_config.renormalize_logits = True
    return model


def _teach(model: MarianMTModel, shape: Shape, seed: int) -> None:
    """Train it a little: to replace each source token by a target token of its own."""
    rng = np.random.default_rng(seed)
    special = (shape.eos_id, shape.pad_id)
    source = np.array([i for i in range(shape.vocab_size) if i not in special][:40])
    target = rng.permutation([i for i in range(shape.target_vocab_size or shape.vocab_size) if i not in special])[:40]
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=0.01)
    model.train()
    for _ in range(shape.lessons):
        words = rng.integers(0, 40, (32, rng.integers(2, 11)))
        end = np.full((32, 1), shape.eos_id)
        wanted = np.concatenate((target[words], end), axis=1)
        fed = np.concatenate((np.full((32, 1), shape.pad_id), wanted[:, :-1]), axis=1)
        logits = model(
            input_ids=torch.tensor(np.concatenate((source[words], end), axis=1)),
            decoder_input_ids=torch.tensor(fed),
        ).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(wanted).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()


def write_checkpoint(shape: Shape, folder: Path, seed: int = 0) -> None:
    """Write a Hugging Face folder: configurations, model.safetensors, and a tokenizer of the model's size."""
    model = build(shape, seed)
    model.save_pretrained(folder)
    write_tokenizer(
        folder,
        source_size=shape.vocab_size,
        target_size=shape.target_vocab_size,
        eos_id=shape.eos_id,
        pad_id=shape.pad_id,
        seed=seed,
    )
    if not shape.lessons and shape.target_vocab_size is None:
        # A trained model does not generate pieces that only its sources have; a random one has to be kept from it.
        foreign = torch.ones(shape.vocab_size, dtype=torch.bool)
        foreign[target_ids(folder)] = False
        with torch.no_grad():
            model.get_input_embeddings().weight[foreign] *= 0.25
        if shape.longest_end:
            special = {shape.eos_id, shape.pad_id}
            free = [word for word in torch.nonzero(foreign).flatten().tolist() if word not in special]
            words = dict(zip(range(1, shape.longest_end + 1), free, strict=False))
            weights = {name: weight.numpy() for name, weight in model.state_dict().items()}  # the same memory
            end_naturally(weights, heads=shape.heads, eos_id=shape.eos_id, words=words)
            (folder / LENGTH_WORDS).write_text(json.dumps(words), encoding="utf-8")
        model.save_pretrained(folder)


def export(model: MarianMTModel, folder: Path, layout: str) -> None:
    """Write `model` into `folder` with Optimum, in one of the LAYOUTS or WITH_A_PAST."""
    with tempfile.TemporaryDirectory() as name:
        model.save_pretrained(name)
        export_checkpoint(Path(name), folder, layout)


def export_checkpoint(checkpoint: Path, folder: Path, layout: str) -> None:
    """The same for a model on disk, its tokenizer's files included."""
    folder.mkdir(parents=True, exist_ok=True)
    task = "text2text-generation" if layout == "none" else "text2text-generation-with-past"
    with tempfile.TemporaryDirectory() as name, _quiet():
        exported = Path(name)
        main_export(str(checkpoint), output=exported, task=task, do_validation=False)
        for file in (*_EXPORTED[layout], "config.json", "generation_config.json"):
            shutil.move(exported / file, folder / file)
    for file in FILES:
        if (checkpoint / file).is_file():
            shutil.copy(checkpoint / file, folder / file)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's warnings, which do not concern a static trace of Marian."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.checkpoints.models", description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument("--layout", choices=(*LAYOUTS, CHECKPOINT), default="merged")
    parser.add_argument("--seed", type=int, default=0)
    options: Any = parser.parse_args(arguments)
    shape = SHAPES[options.shape]
    torch.set_num_threads(1)  # the weights of a trained model depend on the number of threads that summed them
    if options.layout == CHECKPOINT:
        write_checkpoint(shape, options.out, options.seed)
        return
    with tempfile.TemporaryDirectory() as name:
        write_checkpoint(shape, Path(name), options.seed)
        export_checkpoint(Path(name), options.out, options.layout)


if __name__ == "__main__":
    main()
