"""Tiny Marian checkpoints with random weights, written without torch: the files that transformers 4.57 writes."""

import functools
import io
import json
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from numpy.typing import NDArray

Weights = dict[str, NDArray[np.float32]]

SOURCE_TEXT = ["rain in the hills", "snow on the plain", "wind over the sea"] * 4
TARGET_TEXT = ["pluie et vent", "neige au nord", "brume du soir"] * 4


def write_marian_checkpoint(
    folder: Path,
    *,
    width: int = 16,
    layers: int = 2,
    heads: int = 2,
    ffn: int = 32,
    vocab_size: int = 72,
    target_vocab_size: int | None = None,  # None: source and target share one vocabulary and its embeddings
    activation: str = "swish",
    max_positions: int = 64,
    max_length: int = 16,
    eos_id: int = 0,
    dtype: str = "F32",  # F32 | F16 | BF16, the names of safetensors
    shards: int = 1,
    seed: int = 0,
) -> Path:
    """Write config.json, generation_config.json, weights and tokenizer into `folder`; a seed gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    tied, target_size = target_vocab_size is None, target_vocab_size or vocab_size
    pad_id = min(vocab_size, target_size) - 1
    config = {
        "activation_dropout": 0.0,
        "activation_function": activation,
        "architectures": ["MarianMTModel"],
        "attention_dropout": 0.0,
        "d_model": width,
        "decoder_attention_heads": heads,
        "decoder_ffn_dim": ffn,
        "decoder_layerdrop": 0.0,
        "decoder_layers": layers,
        "decoder_start_token_id": pad_id,
        "decoder_vocab_size": target_size,
        "dropout": 0.0,
        "dtype": {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}[dtype],
        "encoder_attention_heads": heads,
        "encoder_ffn_dim": ffn,
        "encoder_layerdrop": 0.0,
        "encoder_layers": layers,
        "eos_token_id": eos_id,
        "forced_eos_token_id": eos_id,
        "init_std": 0.02,
        "is_encoder_decoder": True,
        "max_position_embeddings": max_positions,
        "model_type": "marian",
        "num_hidden_layers": layers,
        "pad_token_id": pad_id,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": tied,
        **({} if tied else {"tie_word_embeddings": False}),
        "transformers_version": "4.57.6",
        "use_cache": True,
        "vocab_size": vocab_size,
    }
    generation = {
        "bad_words_ids": [[pad_id]],
        "decoder_start_token_id": pad_id,
        "eos_token_id": eos_id,
        "forced_eos_token_id": eos_id,
        "max_length": max_length,
        "num_beams": 4,
        "pad_token_id": pad_id,
        "renormalize_logits": True,
        "transformers_version": "4.57.6",
    }
    _write_json(folder / "config.json", config)
    _write_json(folder / "generation_config.json", generation)
    weights = random_weights(
        width=width,
        layers=layers,
        ffn=ffn,
        vocab_size=vocab_size,
        target_vocab_size=target_vocab_size,
        pad_id=pad_id,
        seed=seed,
    )
    write_weights(folder, weights, dtype=dtype, shards=shards)
    write_tokenizer(folder, vocab_size, target_vocab_size, eos_id=eos_id, pad_id=pad_id)
    return folder


def random_weights(
    *, width: int, layers: int, ffn: int, vocab_size: int, target_vocab_size: int | None, pad_id: int, seed: int
) -> Weights:
    """Random weights by their names in a checkpoint. Tied weights appear once, as `save_pretrained` writes them."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int, spread: float) -> NDArray[np.float32]:
        return rng.normal(0.0, spread, shape).astype(np.float32)

    def embeddings(rows: int) -> NDArray[np.float32]:
        table = draw(rows, width, spread=width**-0.5)
        table[pad_id] = 0.0  # as torch does for its padding_idx
        return table

    weights = {"final_logits_bias": draw(1, target_vocab_size or vocab_size, spread=0.1)}
    if target_vocab_size is None:
        weights["model.shared.weight"] = embeddings(vocab_size)
    else:
        weights["model.encoder.embed_tokens.weight"] = embeddings(vocab_size)
        # transformers 4.57 gives the decoder an embedding of `vocab_size` rows, so the target is never the larger one.
        weights["model.decoder.embed_tokens.weight"] = embeddings(vocab_size)
        weights["lm_head.weight"] = draw(target_vocab_size, width, spread=width**-0.5)
    for prefix, attentions in (("encoder", ("self_attn",)), ("decoder", ("self_attn", "encoder_attn"))):
        for layer in range(layers):
            here = f"model.{prefix}.layers.{layer}"
            products = {f"{name}.{part}_proj": (width, width) for name in attentions for part in ("q", "k", "v", "out")}
            products |= {"fc1": (ffn, width), "fc2": (width, ffn)}
            for name, (rows, columns) in products.items():
                weights[f"{here}.{name}.weight"] = draw(rows, columns, spread=columns**-0.5)
                weights[f"{here}.{name}.bias"] = draw(rows, spread=0.1)
            for name in (*(f"{name}_layer_norm" for name in attentions), "final_layer_norm"):
                weights[f"{here}.{name}.weight"] = 1.0 + draw(width, spread=0.1)
                weights[f"{here}.{name}.bias"] = draw(width, spread=0.1)
    return weights


def write_weights(folder: Path, weights: Mapping[str, NDArray[np.float32]], *, dtype: str, shards: int) -> None:
    """Write one file, or several and an index of them."""
    names = sorted(weights)
    if shards == 1:
        _write_safetensors(folder / "model.safetensors", weights, dtype)
        return
    files = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = names[shard::shards]
        _write_safetensors(folder / file, {name: weights[name] for name in part}, dtype)
        files.update(dict.fromkeys(part, file))
    total = sum(weight.nbytes for weight in weights.values())
    _write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": files})


def write_pickle(file: Path, content: Mapping[str, Any], *, zipped: bool = True) -> None:
    """Write arrays as `torch.save` writes tensors: a zip archive since torch 1.6, a sequence of pickles before."""
    program = io.BytesIO()
    pickler = _TorchPickler(program, zipped)
    pickler.dump(OrderedDict(content))
    if zipped:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("archive/data.pkl", program.getvalue())
            archive.writestr("archive/byteorder", b"little")
            for key, storage in enumerate(pickler.storages):
                archive.writestr(f"archive/data/{key}", storage.tobytes())
            archive.writestr("archive/version", b"3\n")
        return
    head = (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}})
    keys = pickle.dumps([str(key) for key in range(len(pickler.storages))], 2)
    storages = (struct.pack("<q", storage.size) + storage.tobytes() for storage in pickler.storages)
    file.write_bytes(b"".join((*(pickle.dumps(part, 2) for part in head), program.getvalue(), keys, *storages)))


class _TorchPickler(pickle._Pickler):  # type: ignore[name-defined,misc]  # the one whose opcodes can be written by hand
    """A pickler that writes the names of torch's functions, without torch."""

    def __init__(self, file: io.BytesIO, zipped: bool) -> None:
        super().__init__(file, protocol=2)
        self.part_of_another = () if zipped else (None,)  # an entry that only the old format has
        self.storages: list[NDArray[Any]] = []

    def save(self, value: Any, save_persistent_id: bool = True) -> None:
        if not isinstance(value, np.ndarray):
            super().save(value, save_persistent_id)
            return
        storage = value if value.flags.c_contiguous else value.T  # a transposed matrix shares its memory
        while 0 in storage.strides and storage.base is not None:  # so does an array that repeats elements
            storage = storage.base
        kind = {"float16": "HalfStorage", "float32": "FloatStorage", "float64": "DoubleStorage", "int64": "LongStorage"}
        self.storages.append(storage)
        self.write(b"ctorch._utils\n_rebuild_tensor_v2\n(")
        self.write(b"(")
        self.save("storage")
        self.write(f"ctorch\n{kind[str(value.dtype)]}\n".encode())
        for part in (str(len(self.storages) - 1), "cpu", storage.size, *self.part_of_another):
            self.save(part)
        self.write(b"tQ")  # the storage, by its persistent id
        strides = tuple(stride // value.itemsize for stride in value.strides)
        for part in (0, value.shape, strides, False, OrderedDict()):
            self.save(part)
        self.write(b"tR")


def write_tokenizer(
    folder: Path, vocab_size: int, target_vocab_size: int | None = None, *, eos_id: int = 0, pad_id: int | None = None
) -> None:
    """Write two SentencePiece models of about thirty pieces, and vocabularies filled up to the size of the model."""
    pad_id = min(vocab_size, target_vocab_size or vocab_size) - 1 if pad_id is None else pad_id
    source, target = train_spm(*SOURCE_TEXT), train_spm(*TARGET_TEXT)
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    special = {"</s>": eos_id, "<unk>": 1, "<pad>": pad_id}
    if target_vocab_size is None:
        _write_json(folder / "vocab.json", _vocabulary(special, [*_pieces(source), *_pieces(target)], vocab_size))
    else:
        _write_json(folder / "vocab.json", _vocabulary(special, _pieces(source), vocab_size))
        _write_json(folder / "target_vocab.json", _vocabulary(special, _pieces(target), target_vocab_size))
    _write_json(
        folder / "tokenizer_config.json",
        {"separate_vocabs": target_vocab_size is not None, "source_lang": "en", "target_lang": "fr"},
    )


@functools.cache
def train_spm(*sentences: str) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        vocab_size=30,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
    )
    return model.getvalue()


def _pieces(spm: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    return [processor.id_to_piece(i) for i in range(len(processor))]


def _vocabulary(special: Mapping[str, int], pieces: list[str], size: int) -> dict[str, int]:
    """Piece -> id: special pieces at the ids of the model, the others in order at free ids, the rest filled up."""
    taken = set(special.values())
    free: Iterator[int] = (piece_id for piece_id in range(size) if piece_id not in taken)
    vocabulary = dict(special)
    for piece in pieces:
        if piece not in vocabulary and (piece_id := next(free, None)) is not None:
            vocabulary[piece] = piece_id
    return vocabulary | {f"▁fill{piece_id}": piece_id for piece_id in free}


def _write_safetensors(file: Path, weights: Mapping[str, NDArray[np.float32]], dtype: str) -> None:
    """Write a safetensors file without the library, because numpy has no bf16."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts, offset = [], 0
    for name in sorted(weights):
        part = _encode(weights[name], dtype)
        header[name] = {
            "dtype": dtype,
            "shape": list(weights[name].shape),
            "data_offsets": [offset, offset + len(part)],
        }
        parts.append(part)
        offset += len(part)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def _encode(weight: NDArray[np.float32], dtype: str) -> bytes:
    if dtype == "BF16":  # the upper half of a float32, rounded to even
        bits = weight.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()
    return weight.astype({"F32": np.float32, "F16": np.float16}[dtype]).tobytes()


def _write_json(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
