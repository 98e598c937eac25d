"""
A translation model with native graphs: its own rules of search, and the decoder and scorer that a lane gets.

Knows: the files of a model folder, and which decoder serves which cache policy. Does not know: how a decoder works.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from jobs.errors import ModelError
from jobs.tasks.shared_options import CachePolicy
from worker.engine.runtime.device import CPU_PROVIDER, Device, Provider
from worker.engine.runtime.device import providers as device_providers
from worker.engine.runtime.native_session import native_precision
from worker.engine.search.generation_config import GenerationConfig, read_generation
from worker.engine.seq2seq.native.attention_reader import NativeAttentionReader
from worker.engine.seq2seq.native.continuous_batching import ContinuousDecoder
from worker.engine.seq2seq.native.graphs import NativeSeq2SeqGraphs
from worker.engine.seq2seq.native.scorer import NativeScorer
from worker.engine.seq2seq.native.uncached_decoder import UncachedDecoder
from worker.engine.seq2seq.protocol import uncached_steps
from worker.graphs.architectures import SEQ2SEQ_ARCHITECTURES
from worker.graphs.file_names import DECODER
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.network import Positions
from worker.models.json_file import read_json
from worker.models.manifest import AttentionChoice, Manifest
from worker.text.marks.known_words import NO_STAND_INS, StandIns


@dataclass(frozen=True, slots=True)
class NativeSeq2Seq:
    """A translation model with native graphs, shared by all lanes of a process and never changed after `open`."""

    graphs: NativeSeq2SeqGraphs
    generation: GenerationConfig
    max_positions: int  # of source and of target
    is_batch_invariant: bool  # on CPUs; a GPU's products may depend on the number of rows
    attention: AttentionChoice | None = None  # by which words are aligned; None: not measured
    stand_ins: StandIns = NO_STAND_INS

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        threads: int = 1,
        providers: Sequence[Provider] = (CPU_PROVIDER,),
        on_device: bool | None = None,
    ) -> Self:
        """Open everything that `folder` holds; raise ModelError now, not at the first document.

        `on_device`: keep keys and values in the device's memory, and move them there; None: unless it is a CPU.
        """
        manifest, config = Manifest.read(folder), read_json(folder / "config.json")
        if manifest.architecture not in SEQ2SEQ_ARCHITECTURES.values():
            raise ModelError(f"{folder} holds a model of the architecture {manifest.architecture}; upgrade kvjobs")
        precision = native_precision(folder, manifest, providers)
        generation, max_positions = read_rules(folder, config)
        if on_device is None:
            on_device = Device.of(providers).kind != "cpu"
        split = manifest.split
        graphs = NativeSeq2SeqGraphs(folder, config, manifest.head_ids, precision, threads, providers, on_device, split)
        graphs.head.rules(generation)
        is_separate = split is not None and split.separate  # opened when a lane needs it
        if (
            not is_separate
            and graphs.head.ids is None
            and graphs.num_target_ids != (vocab_size := _vocab_size(folder, config))
        ):
            raise ModelError(
                f"{folder / DECODER} has {graphs.num_target_ids} ids, and config.json {vocab_size}: the files belong "
                "to different models"
            )
        devices = [providers] if split is None else [device_providers(stage.device) for stage in split.stages]
        on_cpu = all(Device.of(device).kind == "cpu" for device in devices)
        return cls(
            graphs,
            generation,
            max_positions,
            is_batch_invariant=on_cpu,
            attention=manifest.attention,
            stand_ins=manifest.stand_ins or NO_STAND_INS,
        )

    @property
    def is_running(self) -> bool:
        return self.graphs.is_running

    @property
    def has_cache(self) -> bool:
        """True: native graphs always have one."""
        return True

    def check_cache(self, policy: CachePolicy) -> None:
        """Native graphs can follow every policy."""

    def new_decoder(self, policy: CachePolicy = CachePolicy()) -> ContinuousDecoder | UncachedDecoder:  # noqa: B008 - frozen
        """A decoder with its own buffers, for one lane."""
        num_uncached = uncached_steps(policy)
        if num_uncached:
            return UncachedDecoder(self.graphs, num_uncached)
        return ContinuousDecoder(self.graphs, self.attention_choice)

    def new_scorer(self) -> NativeScorer:
        return NativeScorer(self.graphs, self.generation.start_id)

    def new_attention_reader(self) -> NativeAttentionReader:
        return NativeAttentionReader(self.graphs, self.generation.start_id, self.attention_choice)

    @property
    def attention_choice(self) -> AttentionChoice:
        """The attention by which words are aligned."""
        return self.attention or AttentionChoice.unmeasured(self.graphs.shape.num_layers)


def read_rules(folder: Path, config: Mapping[str, Any]) -> tuple[GenerationConfig, int]:
    """The search rules of the model's own files, and the most positions of a source or a target. Raises ModelError for
    a setting that is missing or not supported."""
    settings = folder / "generation_config.json"
    network = read_network(config)
    max_positions = network.max_positions
    generation = read_generation(
        config,
        read_json(settings) if settings.is_file() else None,
        vocab_size=_vocab_size(folder, config),
        max_positions=max_positions,
    )
    pad_id = config.get("pad_token_id")
    if network.positions is Positions.FAIRSEQ and pad_id in (generation.start_id, generation.eos_id):
        raise ModelError(
            f"{folder / 'config.json'} says pad_token_id = {pad_id}, which is the start or the end of a text, too; the "
            "positions of this family leave padding out, so that has to have an id of its own"
        )
    return generation, max_positions


def _vocab_size(folder: Path, config: Mapping[str, Any]) -> int:
    size = config.get("decoder_vocab_size") or config.get("vocab_size")
    if not isinstance(size, int):
        raise ModelError(f"{folder / 'config.json'} has neither decoder_vocab_size nor vocab_size")
    return size
