"""
The interface of a model family for `verify`. `seq2seq.py`, `causal.py` and `cross_encoder.py`
implement it.

Knows: models as samples of ids and checks. Does not know: how a family runs or compares.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from worker.model_tools.verify.checks import VerifyCheck
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder

Sample = Sequence[Sequence[int]]  # ids: segments with their end-of-sentence, or documents
OwnSample = TypeVar("OwnSample")  # a family's: `Sample`, or pairs


class VerifiedFamily(Protocol[OwnSample]):
    """The part of `verify` that depends on the model family."""

    @property
    def unit(self) -> str:
        """What a sample consists of, singular: a segment, a document, a pair."""

    def check_same_vocabulary(self, folder: ModelFolder, other: ModelFolder) -> None:
        """Raise SpecError where the ids of two models mean other tokens, so that they cannot be compared."""

    @property
    def no_checkpoint(self) -> str:
        """A sentence: why an export is not compared with a checkpoint, and what to compare it with instead."""

    def read_sample(self, folder: ModelFolder, corpus: str | None, limit: int) -> OwnSample:
        """The first `limit` different texts of a corpus as ids of the model; without a corpus, of weather bulletins.

        Raises CorpusError for a corpus that cannot be read, SpecError for one without a usable text.
        """

    def run(self, folder: ModelFolder, sample: OwnSample) -> "ModelRun":
        """Open the model and run it over the sample; raises ModelError where it does not run."""

    def export_checkpoint(self, folder: ModelFolder, manifest: Manifest | None) -> Path | None:
        """The checkpoint that an export was made from, where it is known."""

    def write_fp32(self, folder: Path, checkpoint: Checkpoint) -> None:
        """Write native graphs in fp32, with the full head."""


class ModelRun(Protocol):
    """An open model and its results for a sample. Each check compares them with results computed in another way."""

    @property
    def is_exact(self) -> bool:
        """Whether the model computes in fp32, so that it must give the results of its checkpoint."""

    def self_checks(self) -> Iterator[VerifyCheck]:
        """Compare the model with itself: batching and caching must not change a result."""

    def check_checkpoint(self, checkpoint: Path) -> VerifyCheck:
        """Compare the model with a reference implementation that reads the checkpoint."""

    def compare(self, name: str, against: str, other: Path) -> VerifyCheck:
        """Compare the model with the model in the folder `other`. Nothing has to be equal."""
