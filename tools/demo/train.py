"""Train the bundled translation model, and write its folder with native graphs.

    python -m tools.demo.train --out worker/demo/en-zh --checkpoint CHECKPOINT
    python -m tools.demo.train --out worker/demo/en-zh --checkpoint CHECKPOINT --resume --align-steps 700 \
        --align-weight 0.4 --seed 2
    python -m tools.demo.train --out worker/demo/en-zh --checkpoint CHECKPOINT --resume

The second command continues it, the third only rebuilds the graphs. Needs the extra `train` (torch, transformers);
running the model does not.
A Marian model like published ones: SentencePiece models that only cut text, ids from `vocab.json`, post-norm, tied
embeddings, padding as the decoder's start token. Everything is seeded.
"""

import argparse
import json
import math
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import sentencepiece
import torch
from transformers import GenerationConfig, MarianConfig, MarianMTModel, MarianTokenizer

from tools.demo.bundle import write_model
from tools.demo.grammar import Pair, training_pairs
from tools.demo.token_links import token_links
from tools.demo.word_links import training_linked_pairs
from worker.engine.tasks.word_aligning import in_characters
from worker.model_tools.add.model_card import CARD
from worker.text.translation.marian_tokenizer import MarianTokenizer as PlacedTokenizer

SOURCE_PIECES = 400
TARGET_PIECES = 560  # the Chinese has about 380 characters, and each must be a piece
EOS, UNK, PAD = "</s>", "<unk>", "<pad>"

MADE_BY = "python -m tools.demo.train"
MAX_POSITIONS = 256
BATCH_ROWS = 128
POOL_BATCHES = 50  # batches from one pool sorted by length: padding is 10 % of a batch instead of half
PEAK_RATE = 2e-3
POLISH_STEPS = 320
POLISH_RATE = 4e-4
POLISH_SEED = 1000  # gives other pairs than the first training
ALIGN_STEPS = 1000
ALIGN_RATE = 3e-4
ALIGN_SEED = 2000
ALIGN_WEIGHT = 0.1  # Marian's `--guided-alignment-weight`
ALIGN_POOL = 1.3  # pairs for each row of a batch, of which those without a number are thinned out
ALIGN_WITHOUT_NUMBER = 0.3  # the share of them that is kept: most mistakes of the model are in numbers
WARM_UP_STEPS = 300

Ids = list[int]
# Annotations of torch and transformers are partial, so they are `Any` here: mypy has to pass with and without them.


class Row(NamedTuple):
    """A pair of texts as ids, both with EOS."""

    source: Ids
    target: Ids
    links: list[Ids] | None = None  # for each target token, those of the source that it comes from


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.demo.train", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the model")
    parser.add_argument("--checkpoint", type=Path, help="folder for the Hugging Face checkpoint; not kept if not given")
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--pairs", type=int, default=250_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--polish-steps", type=int, help="default: 320, with --resume 0")
    parser.add_argument("--align-steps", type=int, help="of guided alignment; default: 1,000, with --resume 0")
    parser.add_argument("--align-weight", type=float, default=ALIGN_WEIGHT, help="of aligning beside translating")
    parser.add_argument("--resume", action="store_true", help="start from --checkpoint: polish and align it, and build")
    options = parser.parse_args()
    polish_steps, align_steps = (
        (0 if options.resume else default) if asked is None else asked
        for asked, default in ((options.polish_steps, POLISH_STEPS), (options.align_steps, ALIGN_STEPS))
    )
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint = options.checkpoint or Path(scratch)
        if not options.resume:
            train(checkpoint, options.steps, options.pairs, options.seed)
        if polish_steps:
            polish(checkpoint, polish_steps, options.seed + POLISH_SEED)
        if align_steps:
            align(checkpoint, align_steps, options.seed + ALIGN_SEED, options.align_weight)
        write_model(checkpoint, options.out, MADE_BY)


def train(checkpoint: Path, steps: int, num_pairs: int, seed: int) -> None:
    """Write a Hugging Face checkpoint: config, weights, SentencePiece models, vocabulary."""
    # 0.65 s a step instead of 4 s: a model in early training is full of denormal numbers. Threads inherit the setting
    # when they start, so it comes first.
    torch.set_flush_denormal(True)
    checkpoint.mkdir(parents=True, exist_ok=True)
    pairs = training_pairs(num_pairs, seed)
    tokenizer = make_tokenizer(pairs, checkpoint)
    torch.manual_seed(seed)
    model = MarianMTModel(marian_config(tokenizer))
    print(f"{num_pairs} pairs, {len(tokenizer)} pieces, {model.num_parameters()} parameters", flush=True)
    fit(model, tokenized(pairs, tokenizer), steps, Random(seed))
    model.generation_config = generation_config(model.config)
    model.save_pretrained(checkpoint)
    tokenizer.save_pretrained(checkpoint)


def polish(checkpoint: Path, steps: int, seed: int) -> None:
    """Continue briefly on new pairs with numbers at a low rate: the mistakes that are left are repeated digits."""
    torch.set_flush_denormal(True)
    torch.manual_seed(seed)
    tokenizer = MarianTokenizer.from_pretrained(checkpoint)
    model = MarianMTModel.from_pretrained(checkpoint)
    pairs = [pair for pair in training_pairs(steps * BATCH_ROWS * 2, seed) if has_number(pair.english)]
    fit(model, tokenized(pairs, tokenizer), steps, Random(seed), peak_rate=POLISH_RATE, warm_up_steps=20)
    model.save_pretrained(checkpoint)


def align(checkpoint: Path, steps: int, seed: int, weight: float) -> None:
    """Continue with guided alignment, as published Marian models are trained with it: besides translating, one head
    learns to attend to the tokens that the next one comes from (`aligning_loss_of`)."""
    torch.set_flush_denormal(True)
    torch.manual_seed(seed)
    model = MarianMTModel.from_pretrained(checkpoint, attn_implementation="eager")  # which tells its weights
    rows = linked(int(steps * BATCH_ROWS * ALIGN_POOL), seed, PlacedTokenizer.open(checkpoint))
    loss_of = partial(aligning_loss_of, weight=weight)
    fit(model, rows, steps, Random(seed), loss_of=loss_of, peak_rate=ALIGN_RATE, warm_up_steps=50)
    model.save_pretrained(checkpoint)
    (checkpoint / CARD).write_text("* model: transformer-align\n", encoding="utf-8")  # as those of OPUS-MT say it


def has_number(text: str) -> bool:
    """Whether the text has a number of two digits or more."""
    return re.search(r"\d\d", text) is not None


def make_tokenizer(pairs: list[Pair], directory: Path) -> MarianTokenizer:
    """A SentencePiece model for each side, and one vocabulary for both."""
    # The default normalization helps with a user's English (curly quotes, wide digits), but would turn the full-width
    # comma of Chinese into an ASCII one: the target side is not normalized.
    cut_source = train_pieces([pair.english for pair in pairs], directory / "source.spm", SOURCE_PIECES, "nmt_nfkc")
    cut_target = train_pieces([pair.chinese for pair in pairs], directory / "target.spm", TARGET_PIECES, "identity")
    pieces = dict.fromkeys([EOS, UNK, *cut_source, *cut_target])
    pieces.pop(PAD, None)
    vocab = {piece: number for number, piece in enumerate([*pieces, PAD])}
    vocab_file = directory / "vocab.json"
    vocab_file.write_text(json.dumps(vocab, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return MarianTokenizer(
        source_spm=str(directory / "source.spm"),
        target_spm=str(directory / "target.spm"),
        vocab=str(vocab_file),
        source_lang="en",
        target_lang="zh",
        model_max_length=MAX_POSITIONS,
    )


def train_pieces(texts: list[str], file: Path, num_pieces: int, normalization: str) -> list[str]:
    """Train and write a SentencePiece model; return its pieces."""
    with file.open("wb") as writer:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts[:50_000]),
            model_writer=writer,
            vocab_size=num_pieces,
            character_coverage=1.0,
            split_digits=True,  # numbers are copied digit by digit, so any number can be copied
            normalization_rule_name=normalization,
            bos_id=-1,
            eos_id=0,
            unk_id=1,
            minloglevel=1,
            num_threads=1,  # several threads sum in another order
        )
    cutter = sentencepiece.SentencePieceProcessor(model_file=str(file))
    return [cutter.id_to_piece(number) for number in range(cutter.get_piece_size())]


def marian_config(tokenizer: MarianTokenizer) -> MarianConfig:
    pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
    settings = {
        "vocab_size": len(tokenizer),
        "d_model": 128,
        "encoder_layers": 3,
        "decoder_layers": 3,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 512,
        "decoder_ffn_dim": 512,
        "activation_function": "swish",
        "max_position_embeddings": MAX_POSITIONS,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "dropout": 0.0,  # nearly every sentence is new to the model, so it does not overfit
        "eos_token_id": eos,
        "forced_eos_token_id": eos,
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
    }
    return MarianConfig.from_dict(settings)


def generation_config(config: MarianConfig) -> GenerationConfig:
    settings = {
        "num_beams": 1,
        "max_length": MAX_POSITIONS,
        "bad_words_ids": [[config.pad_token_id]],
        "decoder_start_token_id": config.decoder_start_token_id,
        "eos_token_id": config.eos_token_id,
        "forced_eos_token_id": config.eos_token_id,
        "pad_token_id": config.pad_token_id,
    }
    return GenerationConfig.from_dict(settings)


def tokenized(pairs: list[Pair], tokenizer: Any) -> list[Row]:

    def ids(cutter: sentencepiece.SentencePieceProcessor, texts: list[str]) -> list[Ids]:
        unk, eos = tokenizer.unk_token_id, tokenizer.eos_token_id
        return [
            [*(tokenizer.encoder.get(piece, unk) for piece in pieces), eos]
            for pieces in cutter.encode(texts, out_type=str)
        ]

    sources = ids(tokenizer.spm_source, [pair.english for pair in pairs])
    targets = ids(tokenizer.spm_target, [pair.chinese for pair in pairs])
    return [Row(source, target) for source, target in zip(sources, targets, strict=True)]


def linked(num_pairs: int, seed: int, tokenizer: PlacedTokenizer) -> list[Row]:
    """Of new pairs those with a number, and a share of the others, with the links of their tokens."""
    rows, rng = [], Random(seed)
    for pair in training_linked_pairs(num_pairs, seed):
        if not has_number(pair.english) and rng.random() >= ALIGN_WITHOUT_NUMBER:
            continue
        source, target = pair.english, pair.chinese
        pieces = tokenizer.cut_target(target)
        links = token_links(
            pair,
            in_characters(source, tokenizer.source_spans(source, None)[:-1]),  # without the end
            in_characters(target, [(piece.start, piece.stop) for piece in pieces]),
        )
        rows.append(Row(tokenizer.encode(source, None), tokenizer.encode_target(target), links))
    return rows


def fit(
    model: Any,
    rows: list[Row],
    steps: int,
    rng: Random,
    *,
    loss_of: Callable[[Any, list[Row]], Any] | None = None,
    peak_rate: float = PEAK_RATE,
    warm_up_steps: int = WARM_UP_STEPS,
) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak_rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_at(step, steps, warm_up_steps))
    model.train()
    begun = time.monotonic()
    for step, batch in zip(range(1, steps + 1), batches(rows, rng), strict=False):
        loss = (loss_of or translating_loss_of)(model, batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0 or step == steps:
            print(f"step {step} loss {loss.item():.4f} after {time.monotonic() - begun:.0f} s", flush=True)
    model.eval()


def rate_at(step: int, steps: int, warm_up_steps: int) -> float:
    """The share of the peak rate: a linear warm-up, then half a cosine down to zero."""
    if step < warm_up_steps:
        return (step + 1) / warm_up_steps
    return 0.5 * (1 + math.cos(math.pi * (step - warm_up_steps) / max(1, steps - warm_up_steps)))


def batches(rows: list[Row], rng: Random) -> Iterator[list[Row]]:
    """Endless batches of rows of similar length."""
    while True:
        shuffled = rng.sample(rows, len(rows))
        for start in range(0, len(shuffled), BATCH_ROWS * POOL_BATCHES):
            pool = sorted(shuffled[start : start + BATCH_ROWS * POOL_BATCHES], key=lambda row: len(row.target))
            cut = [pool[first : first + BATCH_ROWS] for first in range(0, len(pool), BATCH_ROWS)]
            yield from rng.sample(cut, len(cut))


def translating_loss_of(model: Any, batch: list[Row]) -> Any:
    """The mean of -log p over the tokens of the targets."""
    return output_of(model, batch).loss


def aligning_loss_of(model: Any, batch: list[Row], *, weight: float) -> Any:
    """The same, and a share of the cross entropy between the links of each token and where a head attends at the step
    that writes it: the first of the last layer, as in Marian (Garg et al. 2019, D19-1453). Tokens without links take no
    part."""
    output = output_of(model, batch, output_attentions=True)
    attention = output.cross_attentions[-1][:, 0]  # (B, T, S)
    links = np.zeros(attention.shape, np.float32)
    for at, row in enumerate(batch):
        for token, sources in enumerate(row.links or []):
            links[at, token, sources] = 1 / max(len(sources), 1)
    wanted = torch.from_numpy(links)
    cost = -(wanted * attention.clamp_min(1e-9).log()).sum() / wanted.sum()
    return output.loss + weight * cost


def output_of(model: Any, batch: list[Row], **asked: bool) -> Any:
    def padded(lists: list[Ids], padding: int) -> torch.Tensor:
        tensors = [torch.tensor(ids) for ids in lists]
        return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=padding)

    input_ids = padded([row.source for row in batch], model.config.pad_token_id)  # (B, S)
    labels = padded([row.target for row in batch], -100)  # (B, T); the loss ignores -100
    attention_mask = input_ids.ne(model.config.pad_token_id).long()
    return model(input_ids=input_ids, attention_mask=attention_mask, labels=labels, **asked)


if __name__ == "__main__":
    main()
