"""Models with published weights, as they are added, and how far int8 may be from fp32 on real texts."""

from dataclasses import dataclass
from pathlib import Path

from bench.checkpoints.published import write_gguf, write_published
from bench.peers.requantized_gguf import write_requantized
from tests.made_once import made_once
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model


@dataclass(frozen=True, slots=True)
class Bound:
    """How far int8 may be from fp32, on the texts of `NUM_TEXTS`."""

    change: float  # of the perplexity, in percent
    mean: float  # nats a token
    worst: float  # nats, of a single token


# About three times the change, and one and a half times the rest, as measured on 2026-11-26 (AMD EPYC, AVX-512 VNNI):
# SmolLM2 -0.50 %, 0.094, 2.17; Gemma-3 +0.51 %, 0.082, 0.83. Before rows were mixed, Gemma-3 +11.9 %, 0.278, 2.17.
BOUNDS = {
    "smollm2": Bound(change=1.5, mean=0.14, worst=3.3),
    "gemma3": Bound(change=1.5, mean=0.14, worst=1.3),
}
NUM_TEXTS = {"smollm2": 24, "gemma3": 8}


@dataclass(frozen=True, slots=True)
class RealModel:
    """A published GGUF file, and what is made of it, each once in a test run and when it is first asked for."""

    name: str
    root: Path  # of all processes of the run

    @property
    def file(self) -> Path:
        """The GGUF file as it was published."""
        folder = made_once(self.root / "file", lambda folder: write_gguf(self.name, folder / "published.gguf"))
        return folder / "published.gguf"

    @property
    def checkpoint(self) -> Path:
        """The same weights in float32, as transformers reads them."""
        folder = made_once(self.root / "checkpoint", lambda folder: write_published(self.name, folder / self.name))
        return folder / self.name

    @property
    def fp32(self) -> Path:
        """Graphs of the file, in fp32."""
        return self._added(Precision.FP32, self.file)

    @property
    def int8(self) -> Path:
        """Graphs of the checkpoint, in int8."""
        return self._added(Precision.INT8, self.checkpoint)

    @property
    def kept(self) -> Path:
        """The same weights in llama.cpp, in fp32."""

        def add(folder: Path) -> None:
            write_requantized(self.name, folder / "f32.gguf", "f32")
            add_model(Request(source=str(folder / "f32.gguf"), name="model", keep_gguf=True), folder)

        return made_once(self.root / "kept", add) / "model"

    def _added(self, precision: Precision, source: Path) -> Path:
        request = Request(source=str(source), precision=precision, name="model")
        return made_once(self.root / precision, lambda folder: add_model(request, folder)) / "model"
