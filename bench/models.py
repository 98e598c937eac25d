"""Random Marian models of a given size, seeded, exported as people's models are: for speed and for tests.

    python -m bench.models opus-shaped --out /tmp/opus-shaped [--layout merged|two|none]
    python -m bench.models tiny-swish-tied --out /tmp/tiny

Needs the extra `train` (torch, transformers, Optimum). What such a model says is noise; how long it takes to say it
is what a trained model of the same size takes, and what a cache, a batch or a beam does to its ids is the truth.
"""

import argparse
import json
import logging
import random
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch
from optimum.exporters.onnx import main_export
from transformers import MarianConfig, MarianMTModel

LAYOUTS = {
    "merged": ("encoder_model.onnx", "decoder_model_merged.onnx"),
    "two": ("encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx"),
    "none": ("encoder_model.onnx", "decoder_model.onnx"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of one Marian model, and how its random weights are drawn."""

    width: int
    layers: int
    heads: int
    ffn: int
    vocab_size: int
    target_vocab_size: int | None = None  # None: source and target share one vocabulary and its embeddings
    activation: str = "swish"
    max_positions: int = 512
    max_length: int = 512
    eos_id: int = 0
    pad_id: int = 0
    spread: float = 0.02  # standard deviation of the weights
    lessons: int = 0  # training steps on a toy task: none is enough for speed


# A model that was never taught says one token for ever. Half-taught ones end by themselves, hesitate between tokens,
# and depend on their source: what a test of a cache and of a beam search needs.
SHAPES = {
    "opus-shaped": Shape(width=512, layers=6, heads=8, ffn=2048, vocab_size=65_001, pad_id=65_000),
    "tiny-swish-tied": Shape(
        width=16, layers=2, heads=2, ffn=32, vocab_size=72, pad_id=71,
        max_positions=64, max_length=48, spread=0.1, lessons=300,
    ),
    "tiny-relu-tied": Shape(
        width=24, layers=2, heads=3, ffn=32, vocab_size=64, eos_id=41, pad_id=63, activation="relu",
        max_positions=64, max_length=40, spread=0.1, lessons=200,
    ),
    # transformers 4.57 gives the decoder an embedding of `vocab_size` rows, so the target may not be the larger one.
    "tiny-swish-separate": Shape(
        width=32, layers=2, heads=4, ffn=32, vocab_size=96, target_vocab_size=67, eos_id=43, pad_id=66,
        max_positions=64, max_length=48, spread=0.1, lessons=300,
    ),
    "tiny-relu-separate": Shape(
        width=32, layers=2, heads=2, ffn=48, vocab_size=80, target_vocab_size=61, eos_id=0, pad_id=60,
        activation="relu", max_positions=64, max_length=40, spread=0.1, lessons=150,
    ),
}  # fmt: skip


def build(shape: Shape, seed: int = 0) -> MarianMTModel:
    """A Marian model with random weights, taught as its shape says; the same seed gives the same weights."""
    torch.manual_seed(seed)
    config = MarianConfig(
        vocab_size=shape.vocab_size,
        decoder_vocab_size=shape.target_vocab_size or shape.vocab_size,
        share_encoder_decoder_embeddings=shape.target_vocab_size is None,
        tie_word_embeddings=shape.target_vocab_size is None,
        d_model=shape.width,
        encoder_layers=shape.layers,
        decoder_layers=shape.layers,
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
        model.final_logits_bias.normal_(std=0.1)  # all zero in most published models, but not in all
        _teach(model, shape, seed)
    # As the published opus-mt models have it.
    model.generation_config.max_length = shape.max_length
    model.generation_config.num_beams = 4
    model.generation_config.bad_words_ids = [[shape.pad_id]]
    model.generation_config.renormalize_logits = True
    return model


def _teach(model: MarianMTModel, shape: Shape, seed: int) -> None:
    """Teach it, badly, to replace each source token by a target token of its own."""
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


def export(model: MarianMTModel, folder: Path, layout: str) -> None:
    """Write `model` into `folder` with Optimum, in one of the LAYOUTS."""
    folder.mkdir(parents=True, exist_ok=True)
    task = "text2text-generation" if layout == "none" else "text2text-generation-with-past"
    with tempfile.TemporaryDirectory() as name, _quiet():
        checkpoint, exported = Path(name, "checkpoint"), Path(name, "exported")
        model.save_pretrained(checkpoint)
        main_export(str(checkpoint), output=exported, task=task, do_validation=False)
        for file in (*LAYOUTS[layout], "config.json", "generation_config.json"):
            shutil.move(exported / file, folder / file)


def write_tokenizer(folder: Path, shape: Shape, seed: int = 0) -> None:
    """Two small SentencePiece models, and a vocab.json filled up to the size of the model.

    The words are random syllables; the pieces that no text needs are called `▁fill123`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {"</s>": shape.eos_id, "<unk>": 1, "<pad>": shape.pad_id}
    taken = set(vocabulary.values())
    free = (piece_id for piece_id in range(shape.vocab_size) if piece_id not in taken)
    for side, syllables in (("source", "ka to mi re su lo ne vi"), ("target", "ba du fe gi ho ju pa ze")):
        with tempfile.TemporaryDirectory() as name:
            text = Path(name, "text")
            text.write_text("\n".join(_sentences(syllables.split(), 2_000, seed)), encoding="utf-8")
            sentencepiece.SentencePieceTrainer.train(
                input=str(text), model_prefix=str(Path(name, side)), vocab_size=400,
                hard_vocab_limit=False, bos_id=-1, minloglevel=2,
            )  # fmt: skip
            shutil.move(Path(name, f"{side}.model"), folder / f"{side}.spm")
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        for index in range(pieces.get_piece_size()):
            piece = pieces.id_to_piece(index)
            if piece not in vocabulary:
                vocabulary[piece] = next(free)
    vocabulary.update({f"▁fill{piece_id}": piece_id for piece_id in free})
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"source_lang": "en", "target_lang": "xx"}\n', encoding="utf-8")


def _sentences(syllables: list[str], count: int, seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(1_500)]
    for _ in range(count):
        yield " ".join(rng.choices(words, k=rng.randint(3, 20))).capitalize() + rng.choice(".?!")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's warnings, which are about things that a static trace of Marian does not meet."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.models", description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument("--layout", choices=LAYOUTS, default="merged")
    parser.add_argument("--seed", type=int, default=0)
    options: Any = parser.parse_args(arguments)
    shape = SHAPES[options.shape]
    export(build(shape, options.seed), options.out, options.layout)
    if shape.vocab_size > 1_000:
        write_tokenizer(options.out, shape, options.seed)


if __name__ == "__main__":
    main()
