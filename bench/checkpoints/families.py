"""Random checkpoints of every family, of a distilled model's size, made by transformers with a seed.

    python -m bench.checkpoints.families t5 --out DIR [--size tiny]

Needs torch and transformers (extra `bench`). The output is noise, but it takes as long as that of a trained model.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, GenerationConfig

from bench.checkpoints.causal_models import write_word_tokenizer
from bench.checkpoints.family_shapes import DISTILLED, FAMILIES, SIZES
from bench.checkpoints.family_tokenizers import write_family_tokenizer

_MAX_LENGTH = 128  # target tokens
_BIAS_SPREAD = 0.02
_SMALL = 0.1


def write_checkpoint(name: str, size: str, folder: Path, seed: int = 0) -> None:
    """Write config.json, generation_config.json, model.safetensors (fp32) and a tokenizer."""
    family = FAMILIES[name]
    settings = family.config(size)
    torch.manual_seed(seed)
    config = AutoConfig.for_model(name, **settings)
    model = (AutoModelForSeq2SeqLM if family.is_seq2seq else AutoModelForCausalLM).from_config(config).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter_name.endswith("bias"):  # all zero otherwise: a bias that is lost would change no id
                parameter.normal_(std=_BIAS_SPREAD)
        if name == "t5":  # whose embeddings are so large that every token would be the one before it
            model.get_input_embeddings().weight *= _SMALL
        if family.is_seq2seq:  # a trained model does not generate padding, which kvjobs never takes
            model.get_output_embeddings().weight[config.pad_token_id] *= _SMALL
    generation: dict[str, Any] = {"eos_token_id": config.eos_token_id, "pad_token_id": config.pad_token_id}
    if family.is_seq2seq:
        generation |= {"decoder_start_token_id": config.decoder_start_token_id, "max_length": _MAX_LENGTH}
    model.generation_config = GenerationConfig(**generation)
    model.save_pretrained(folder)
    if family.is_seq2seq:
        write_family_tokenizer(folder, name, config.vocab_size)
    else:
        write_word_tokenizer(folder, config.vocab_size)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.checkpoints.families", description=__doc__.splitlines()[0])
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument("--size", choices=SIZES, default=DISTILLED)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    write_checkpoint(options.family, options.size, options.out, options.seed)


if __name__ == "__main__":
    main()
