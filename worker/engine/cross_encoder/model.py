"""
A cross-encoder with a native graph: which pairs go through the model together.

Pairs are sorted by length, so that the rows of a call, which attention pads, are of about one length.

Knows: the files of a model folder, how large a call may be. Does not know: texts.

Shapes: M tokens · B pairs · S the longest.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from onnxruntime import InferenceSession

from jobs.errors import ModelError
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.device import CPU_PROVIDER, Provider
from worker.engine.runtime.native_session import native_precision, open_native_session
from worker.engine.runtime.run_context import RunContext
from worker.graphs.architectures import CROSS_ENCODERS
from worker.graphs.cross_encoder.families import read_network
from worker.graphs.cross_encoder.network import EncoderNetwork
from worker.graphs.file_names import CROSS_ENCODER
from worker.graphs.precision import Precision
from worker.models.json_file import read_json
from worker.models.manifest import Manifest


@dataclass(frozen=True, slots=True)
class PairIds:
    """A query with a document, as the model reads them."""

    ids: Sequence[int]  # special tokens included
    types: Sequence[int]  # for each token the type of query or document, by the tokenizer's template


@dataclass(frozen=True, slots=True)
class PairLimits:
    """The largest sizes of one call; a single pair may be larger."""

    # M. Tokens in a second of processor time, pairs of `bench.rerank_cross_encoder`, ms-marco-MiniLM-L6's sizes, one
    # thread of an Intel Xeon with other work beside it: fp32 5,300 with 256, 5,000 with 512, 4,300 with 1,024, 4,000
    # with 2,048; int8 8,700, 7,800, 7,400 and 5,900.
    tokens: int = 256
    padded: int = 320  # B x S: the tokens that attention computes, padding included


LIMITS = PairLimits()


@dataclass(frozen=True, slots=True)
class CrossEncoder:
    """A cross-encoder with a native graph, shared by all lanes of a process and never changed after `open`."""

    session: InferenceSession
    network: EncoderNetwork
    precision: Precision

    @classmethod
    def open(cls, folder: Path, *, threads: int = 1, providers: Sequence[Provider] = (CPU_PROVIDER,)) -> Self:
        """Open the model in `folder`; raise ModelError now, not at the first document."""
        manifest, config = Manifest.read(folder), read_json(folder / "config.json")
        if not manifest.is_native or manifest.architecture not in CROSS_ENCODERS:
            raise ModelError(
                f"{folder} holds a model of the architecture {manifest.architecture} in the layout {manifest.layout}, "
                f"which scores no pair of texts; known are {', '.join(CROSS_ENCODERS)} in kv"
            )
        precision = native_precision(folder, manifest, providers)
        network = read_network(config)
        if network.family != manifest.architecture:
            raise ModelError(
                f"{folder / 'config.json'} is of the family {network.family}, and kvjobs.json of "
                f"{manifest.architecture}: the files belong to different models"
            )
        session = open_native_session(folder / CROSS_ENCODER, precision, threads=threads, providers=providers)
        return cls(session, network, precision)

    @property
    def max_positions(self) -> int:
        """The longest pair that the model reads, in tokens, special tokens included."""
        return self.network.max_positions

    @property
    def vocab_size(self) -> int:
        return self.network.vocab_size

    @property
    def token_types(self) -> int:
        """How many types of tokens the model tells apart; 0: none."""
        return self.network.token_types

    @property
    def padding_id(self) -> int | None:
        """RoBERTa's padding id, from which it counts positions, so that no pair may have it; None for other models."""
        return self.network.first_position - 1 if self.network.first_position else None

    def computes_in_float32(self) -> bool:
        """Whether weights and products are float32, so that only the order of sums can change a result."""
        return self.precision is Precision.FP32

    def new_scorer(self, *, is_packed: bool = True) -> "CrossEncoderScorer":
        """One lane's scorer. `is_packed`: many pairs per call; else one pair after another."""
        return CrossEncoderScorer(self.session, LIMITS if is_packed else PairLimits(tokens=1, padded=1))


class CrossEncoderScorer:
    """One lane's scorer; it keeps no memory between calls."""

    buffer_stats = BufferStats()  # it keeps nothing between two calls

    def __init__(self, session: InferenceSession, limits: PairLimits = LIMITS) -> None:
        self._session = session
        self._inputs = [node.name for node in session.get_inputs()]
        self._limits = limits

    def score(self, pairs: Sequence[PairIds], run: RunContext) -> Iterator[tuple[int, float]]:
        """Yield the logit of each pair once, the longest first, by its index among `pairs`. No pair affects another.
        NaN and infinities come out as the model gave them.

        No pair is empty or longer than `max_positions`. Raises what the model raises, and Stopped between two of its
        calls.
        """
        for pack in _packs([len(pair.ids) for pair in pairs], self._limits):
            run.raise_if_stopped("calls of the model")
            packed = PackedPairs.of([pairs[index] for index in pack])
            feeds = {name: getattr(packed, name) for name in self._inputs}
            with run.measure("encode", rows=len(pack), tokens=len(packed.ids)):
                (logits,) = self._session.run(None, feeds)
            yield from zip(pack, map(float, logits), strict=True)


def _packs(lengths: Sequence[int], limits: PairLimits) -> Iterator[list[int]]:
    """Indices of pairs of about one length that fit into one call, the longest first."""
    pack: list[int] = []
    tokens = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        padded = lengths[pack[0]] * (len(pack) + 1) if pack else 0
        if pack and (tokens + lengths[index] > limits.tokens or padded > limits.padded):
            yield pack
            pack, tokens = [], 0
        pack.append(index)
        tokens += lengths[index]
    if pack:
        yield pack


@dataclass(frozen=True, slots=True)
class PackedPairs:
    """The inputs of the graph, by their names: matrix products see the tokens one after the other, attention sees them
    in rows (`worker.graphs.cross_encoder.graph`)."""

    ids: NDArray[np.int64]  # (M,)
    types: NDArray[np.int64]  # (M,)
    positions: NDArray[np.int64]  # (M,): from 0 in each pair
    rows: NDArray[np.int64]  # (B, S): the index of each token among the M; beyond the end of a row, of any
    places: NDArray[np.int64]  # (M,): the index of each token among the B x S
    lengths: NDArray[np.int32]  # (B,)
    firsts: NDArray[np.int64]  # (B,): the first token of each pair

    @classmethod
    def of(cls, pairs: Sequence[PairIds]) -> Self:
        """One row for each pair, padded on the right."""
        lengths = np.array([len(pair.ids) for pair in pairs])
        firsts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        columns = np.arange(int(lengths.max()))
        is_token = columns < lengths[:, None]  # (B, S)
        places = np.flatnonzero(is_token)
        return cls(
            ids=np.concatenate([np.asarray(pair.ids, np.int64) for pair in pairs]),
            types=np.concatenate([np.asarray(pair.types, np.int64) for pair in pairs]),
            positions=places % len(columns),
            rows=np.where(is_token, firsts[:, None] + columns, 0),
            places=places,
            lengths=lengths.astype(np.int32),
            firsts=firsts,
        )


def score_all(scorer: CrossEncoderScorer, pairs: Sequence[PairIds], run: RunContext) -> list[float]:
    """The logit of every pair, in the order of the pairs."""
    by_pair = dict(scorer.score(pairs, run))
    return [by_pair[index] for index in range(len(pairs))]
