"""Train the bundled causal model, and write its folder with native graphs.

    python -m tools.demo.train_lm --out worker/demo/lm
    python -m tools.demo.train_lm --out worker/demo/lm --checkpoint CHECKPOINT --resume --polish-steps 0

The second line only builds the graphs again. Needs the extra `train` (torch, transformers); running the model needs
neither. A Qwen2 as the published ones are, only smaller: byte-level BPE that cuts as theirs does, digits one by one, no
BOS, `<|endoftext|>` between documents, fewer key/value heads than heads, tied embeddings. Everything is seeded.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

from tools.demo.bundle import write_model
from tools.demo.grammar import bulletin, is_held_out
from tools.demo.questions import ask_for, facts

MADE_BY = "python -m tools.demo.train_lm"

END = "<|endoftext|>"
VOCAB_SIZE = 1024  # nearly every word of the grammar is one token
TOKENIZER_TEXTS = 8_000
MAX_POSITIONS = 1024
# The pre-tokenizer of Qwen2: words with the space before them, digits one by one. Runtimes that choose it by the model
# family alone (llama.cpp) then give the same tokens.
CUT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

STEPS = 1500
POLISH_STEPS = 400
POLISH_SEED = 1000  # gives other rows than the first training
SAVED_EVERY = 100  # steps
BATCH_TOKENS = 4096
POOL_ROWS = 2048  # rows that are sorted by length and then cut into batches, so that there is little padding
LONG_SHARE = 0.01  # of the rows are as long as the model allows: several documents in a row
PEAK_RATE = 4e-3
WARM_UP_STEPS = 100
POLISH_WARM_UP_STEPS = 20

# The kinds of rows, and their shares. The templates are the defaults of reranking.
LIKELIHOOD = ("Document: {document}\nQuery:", " {query}")
PERPLEXITY = ("Query: {query}\nDocument:", " {document}")
ROWS = {"likelihood": 0.7, "perplexity": 0.15, "short": 0.05, "bulletin": 0.1}
MAX_SENTENCES = 3  # of a short document
MAX_QUESTIONS = 4  # about one document, each for another fact, in one row with the document
GIVEN_WEIGHT = 0.1  # weight of a prompt token in the loss

Ids = list[int]
Row = tuple[Ids, list[float]]  # token ids, and the weight of each in the loss
# Annotations of torch and transformers are partial, so they are `Any` here: mypy has to pass with and without them.


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.demo.train_lm", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder for the model; without it, only the checkpoint is made")
    parser.add_argument("--checkpoint", type=Path, help="folder for the Hugging Face checkpoint; not kept if not given")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--polish-steps", type=int, default=POLISH_STEPS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="start from --checkpoint: polish it, and build")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint = options.checkpoint or Path(scratch)
        if not options.resume:
            train(checkpoint, options.steps, options.seed)
        if options.polish_steps:
            polish(checkpoint, options.polish_steps, options.seed + POLISH_SEED)
        if options.out:
            write_model(checkpoint, options.out, MADE_BY)


def train(checkpoint: Path, steps: int, seed: int) -> None:
    """Write a Hugging Face checkpoint: config, weights, tokenizer."""
    # A model in early training is full of denormal numbers. Threads inherit the setting when they start, so it comes
    # first.
    torch.set_flush_denormal(True)
    checkpoint.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(checkpoint, seed)
    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(model_config(tokenizer))
    print(f"{tokenizer.get_vocab_size()} tokens, {model.num_parameters()} parameters", flush=True)
    fit(model, rows(tokenizer, seed), steps, checkpoint, rising)


def polish(checkpoint: Path, steps: int, seed: int) -> None:
    """Continue on new rows, while the rate falls to zero."""
    torch.set_flush_denormal(True)
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    model = Qwen2ForCausalLM.from_pretrained(checkpoint)
    fit(model, rows(tokenizer, seed), steps, checkpoint, lambda step: falling(step, steps))


def rising(step: int) -> float:
    """The share of the peak rate: a linear warm-up, then constant, so that more steps do not change the first ones."""
    return min(1.0, (step + 1) / WARM_UP_STEPS)


def falling(step: int, steps: int) -> float:
    """The share of the peak rate: a short warm-up of the new optimizer, then a linear fall to zero."""
    return min((step + 1) / POLISH_WARM_UP_STEPS, (steps - step) / steps)


def save(model: Any, checkpoint: Path) -> None:
    end = model.config.eos_token_id
    model.generation_config = GenerationConfig.from_dict(
        {"eos_token_id": end, "pad_token_id": end, "bos_token_id": None, "do_sample": False}
    )
    model.save_pretrained(checkpoint)


def make_tokenizer(directory: Path, seed: int) -> Tokenizer:
    """Train and write `tokenizer.json` and `tokenizer_config.json`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(CUT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),  # so that any text can be tokenized
        special_tokens=[END],
        show_progress=False,
    )
    samples = islice(texts(Random(f"tokenizer {seed}")), TOKENIZER_TEXTS)
    tokenizer.train_from_iterator(("".join(parts) for parts in samples), trainer)
    tokenizer.save(str(directory / "tokenizer.json"))
    settings = {
        "tokenizer_class": "Qwen2Tokenizer",
        "add_bos_token": False,
        "add_prefix_space": False,
        "bos_token": None,
        "eos_token": END,
        "pad_token": END,
        "unk_token": None,
        "model_max_length": MAX_POSITIONS,
        "clean_up_tokenization_spaces": False,
    }
    settings_file = directory / "tokenizer_config.json"
    settings_file.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    return tokenizer


def model_config(tokenizer: Tokenizer) -> Qwen2Config:
    end = tokenizer.token_to_id(END)
    settings = {
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 384,
        "max_position_embeddings": MAX_POSITIONS,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": True,
        "attention_dropout": 0.0,  # every row is new to the model, so it does not overfit
        "bos_token_id": None,
        "eos_token_id": end,
        "pad_token_id": None,
    }
    return Qwen2Config.from_dict(settings)


def texts(rng: Random) -> Iterator[tuple[str, str]]:
    """Endless (prompt, text to learn), from sentences that are not held out."""
    kinds, weights = list(ROWS), list(ROWS.values())
    while True:
        [kind] = rng.choices(kinds, weights)
        document = bulletin(rng, lambda english: not is_held_out(english))
        if kind == "bulletin":
            yield "", document.english
            continue
        sentences = [pair.english for pair in document.sentences]
        start = 0 if rng.random() < 0.1 or sentences[0].endswith(".") else 1  # sometimes with the title
        short = " ".join(sentences[start : start + rng.randint(1, MAX_SENTENCES)])
        stated = facts(short)
        num_questions = MAX_QUESTIONS if kind == "likelihood" else 1
        asked = [ask_for(rng, fact) for fact in rng.sample(stated, min(num_questions, len(stated)))]
        queries = [question.text for question in asked if question]
        if kind == "short" or not queries:
            yield "", short
        elif kind == "perplexity":
            given, learnt = PERPLEXITY
            yield given.format(query=queries[0]), learnt.format(document=short)
        else:
            given, learnt = LIKELIHOOD
            yield given.format(document=short), "\nQuery:".join(learnt.format(query=query) for query in queries)


def rows(tokenizer: Tokenizer, seed: int) -> Iterator[Row]:
    """Endless rows. Each ends with END, and half of those without a prompt begin with it."""
    rng = Random(f"rows {seed}")
    end = tokenizer.token_to_id(END)
    source = texts(rng)

    def next_row() -> Row:
        given, learnt = ([*tokenizer.encode(part).ids] for part in next(source))
        first = [end] if not given and rng.random() < 0.5 else []
        weights = [*([GIVEN_WEIGHT] * (len(first) + len(given))), *([1.0] * (len(learnt) + 1))]
        return [*first, *given, *learnt, end], weights

    while True:
        ids, weights = next_row()
        if rng.random() < LONG_SHARE:
            while len(ids) < MAX_POSITIONS:
                more_ids, more_weights = next_row()
                ids, weights = ids + more_ids, weights + more_weights
        yield ids[:MAX_POSITIONS], weights[:MAX_POSITIONS]


def batches(source: Iterator[Row], rng: Random) -> Iterator[list[Row]]:
    """Endless batches of rows of similar length, at most BATCH_TOKENS with padding."""
    while True:
        pool = sorted(islice(source, POOL_ROWS), key=lambda row: len(row[0]))
        cut: list[list[Row]] = [[]]
        for row in pool:
            if len(row[0]) * (len(cut[-1]) + 1) > BATCH_TOKENS:
                cut.append([])
            cut[-1].append(row)
        yield from rng.sample(cut, len(cut))


def fit(model: Any, source: Iterator[Row], steps: int, checkpoint: Path, rate_at: Callable[[int], float]) -> None:
    """Train, saving every SAVED_EVERY steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate_at)
    model.train()
    begun = time.monotonic()
    losses: list[float] = []
    num_tokens = 0
    for step, batch in zip(range(1, steps + 1), batches(source, Random("batches")), strict=False):
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        num_tokens += sum(len(ids) for ids, _ in batch)
        if step % 50 == 0 or step == steps:
            mean = sum(losses[-50:]) / len(losses[-50:])
            print(f"step {step} loss {mean:.4f}, {num_tokens} tokens in {time.monotonic() - begun:.0f} s", flush=True)
        if step % SAVED_EVERY == 0 or step == steps:
            save(model, checkpoint)
    model.eval()


def loss_of(model: Any, batch: list[Row]) -> Any:
    def padded(lists: list[Any], padding: float) -> torch.Tensor:
        tensors = [torch.tensor(values) for values in lists]
        return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=padding)

    # Padding is on the right, where no token of a causal model attends to it: no mask is needed.
    input_ids = padded([ids for ids, _ in batch], model.config.eos_token_id)  # (B, S)
    weights = padded([weights for _, weights in batch], 0.0)[:, 1:]  # (B, S - 1), of the predicted tokens
    logits = model(input_ids=input_ids).logits[:, :-1]  # (B, S - 1, V)
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), input_ids[:, 1:].flatten(), reduction="none")
    return (losses * weights.flatten()).sum() / weights.sum()


if __name__ == "__main__":
    main()
