"""GGUF files that are damaged or hostile are refused with one sentence, without much memory."""

import contextlib
import itertools
import random
import struct
import tracemalloc

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize, quantize

from bench.checkpoints.gguf_file import write_gguf
from jobs.errors import ModelError
from tests.causal_checkpoints import write_causal_checkpoint
from worker.models.checkpoint import gguf_file
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.checkpoint.gguf_file import GgufFile, can_read
from worker.text.gguf_tokenizer import tokenizer_files

HUGE = 1 << 60


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def header(*, version: int = 3, tensors: int = 0, pairs: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs)


def tensor(name: str, dimensions: list[int], kind: int = 0, offset: int = 0) -> bytes:
    return string(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, kind, offset)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small model with a vocabulary."""
    folder = tmp_path_factory.mktemp("gguf")
    checkpoint = write_causal_checkpoint(folder / "tiny", "llama", width=32, ffn=32, layers=1, vocab_size=262)
    write_gguf(checkpoint, folder / "file.gguf", "q8_0", pre="gpt-2")
    return (folder / "file.gguf").read_bytes()


def test_the_header_says_what_the_package_of_llama_cpp_reads(whole, tmp_path):
    (tmp_path / "file.gguf").write_bytes(whole)

    ours, theirs = GgufFile.open(tmp_path / "file.gguf"), gguf.GGUFReader(tmp_path / "file.gguf")

    fields = {key: field.contents() for key, field in theirs.fields.items() if not key.startswith("GGUF.")}
    assert ours.metadata == fields
    assert list(ours.tensors) == [tensor.name for tensor in theirs.tensors]
    for one in theirs.tensors:
        expected = gguf.quants.dequantize(one.data, one.tensor_type)
        np.testing.assert_array_equal(ours.tensors[one.name].read(), expected, strict=True)


def test_each_type_is_read_as_the_package_dequantizes_it(tmp_path, monkeypatch):
    """Of types without a quantizer in the package, and of damaged files, the blocks are any bytes."""
    monkeypatch.setattr(gguf_file, "_CHUNK", 600)  # of the rows, two at once
    rng, drawn = np.random.default_rng(3), {}
    writer = gguf.GGUFWriter(tmp_path / "file.gguf", "llama")
    for kind in filter(lambda kind: can_read(kind.name), gguf.GGMLQuantizationType):
        elements, num_bytes = gguf.GGML_QUANT_SIZES[kind]
        drawn[kind.name] = rng.integers(0, 256, (5, 256 // elements * num_bytes), np.uint8)
        with contextlib.suppress(NotImplementedError):
            writer.add_tensor(f"{kind.name} quantized", quantize(rng.normal(size=(5, 256)), kind), raw_dtype=kind)
        writer.add_tensor(kind.name, drawn[kind.name], raw_dtype=kind)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()

    ours, theirs = GgufFile.open(tmp_path / "file.gguf").tensors, gguf.GGUFReader(tmp_path / "file.gguf").tensors

    assert {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q4_K", "Q6_K", "IQ4_XS", "IQ1_S", "TQ1_0", "MXFP4"} <= {*drawn}
    assert [*ours] == [tensor.name for tensor in theirs]
    for tensor in theirs:
        with np.errstate(all="ignore"):
            expected = np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32)
        np.testing.assert_array_equal(ours[tensor.name].read(), expected, strict=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"GGML" + bytes(60), "is no GGUF file"),
        (b"GG", "it ends within its header"),
        (header(version=1) + bytes(40), "version 1 .*2, 3"),
        (header(version=3 << 24) + bytes(40), "version 50331648 .*little-endian"),
        (header(pairs=HUGE) + bytes(40), r"announces 1,152,921,504,606,846,976 items"),
        (header(tensors=HUGE) + bytes(40), "more than it can hold"),
        (header(pairs=1) + struct.pack("<Q", HUGE) + bytes(40), "it ends within its header"),
        (header(pairs=1) + string("a") + struct.pack("<IIQ", 9, 4, 1 << 40) + bytes(64), "more than it can hold"),
        (header(pairs=1) + string("a") + struct.pack("<IIQ", 9, 8, 1 << 40) + bytes(64), "more than it can hold"),
        (header(pairs=1) + string("a") + struct.pack("<IIQ", 9, 9, 1) + bytes(64), "list .*type 9"),
        (header(pairs=1) + string("a") + struct.pack("<I", 77) + bytes(64), "unknown type 77"),
        (header(pairs=1) + struct.pack("<Q", 2) + b"\xff\xff" + bytes(64), "a string is not UTF-8"),
        (
            header(tensors=1) + tensor("a\n\x1b[31m", [1]) + bytes(64),
            "a name .* holds characters that cannot be printed",
        ),
        (header(tensors=1) + tensor("a" * 201, [1]) + bytes(64), "a name is too long"),
        (header(pairs=2) + 2 * (string("a") + struct.pack("<II", 4, 1)), "a is there twice"),
        (header(tensors=1) + tensor("t", [HUGE, HUGE, HUGE, HUGE]) + bytes(64), "t lies beyond its end"),
        (header(tensors=1) + tensor("t", [4], offset=HUGE) + bytes(64), "t lies beyond its end"),
        (header(tensors=1) + tensor("t", [4] * 9) + bytes(64), "t has 9 dimensions"),
        (header(tensors=1) + tensor("t", [4, 0]) + bytes(64), "t is empty"),
        (header(tensors=1) + tensor("t", [33], kind=8) + bytes(64), "t .*33 elements.*Q8_0"),
        (
            header(tensors=1) + tensor("t", [128], kind=12) + bytes(144),
            "rows of t have 128 elements, which Q4_K cannot",
        ),
        (header(tensors=1) + tensor("t", [256], kind=12) + bytes(80), "t lies beyond its end"),
        (header(tensors=2) + 2 * tensor("t", [1]) + bytes(64), "tensor t .*twice"),
        (header(pairs=1) + string("general.alignment") + struct.pack("<II", 4, 0), "general.alignment is 0"),
    ],
)
def test_a_damaged_or_hostile_file_is_refused_in_one_sentence_without_much_memory(content, message, tmp_path):
    file = tmp_path / "file.gguf"
    file.write_bytes(content)

    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match=message) as refused:
            Checkpoint.open(file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert peak < 1 << 20


def test_lists_of_millions_of_bytes_are_refused_before_they_become_objects(tmp_path):
    file = tmp_path / "file.gguf"
    count = (1 << 22) + 1
    file.write_bytes(header(pairs=1) + string("a") + struct.pack("<IIQ", 9, 0, count) + bytes(count))

    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match=r"header .*4,194,304 items"):
            GgufFile.open(file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_a_file_that_was_cut_is_refused_wherever_it_was_cut(whole, tmp_path):
    file = tmp_path / "file.gguf"
    for length in itertools.chain(range(1, 400, 7), range(400, len(whole), len(whole) // 40)):
        file.write_bytes(whole[:length])

        with pytest.raises(ModelError, match="damaged"):
            GgufFile.open(file)


@pytest.mark.parametrize("seed", range(4))
def test_a_file_with_wrong_bytes_is_read_or_refused_but_raises_nothing_else(seed, whole, tmp_path):
    rng = random.Random(seed)
    file, refused = tmp_path / "file.gguf", 0
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(rng.randint(1, 6)):
            content[rng.randrange(4, rng.choice((1500, len(whole))))] = rng.choice((0, 1, 127, 255, rng.randrange(256)))
        file.write_bytes(content)
        try:
            checkpoint = Checkpoint.open(file)
            for name in checkpoint.weights:
                checkpoint.weights[name]
            tokenizer_files(GgufFile.open(file).metadata, str(file))
        except ModelError:
            refused += 1
    assert refused > 10
