"""
Whether a model computes what it should: `kvjobs models verify`.

    self checks  with batching and cache      against one text at a time, without a cache
    checkpoint   each token                   against the checkpoint itself, in transformers or numpy
    precision    results in int8 or fp16      against native graphs in fp32 of the same checkpoint
    model        results                      against the results of another model

In fp32 the first two must hold: a model that fails one of them is wrong. The last two measure what an approximation
costs. How a family runs and compares is the part of `seq2seq`, `causal` and `cross_encoder`.

Knows: manifests, checkpoints, the order of the checks. Does not know: engines, how to print.
"""

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from worker.graphs.precision import Precision
from worker.model_tools.origin import find_checkpoint
from worker.model_tools.verify.checks import Verdict, VerifyCheck
from worker.model_tools.verify.protocol import ModelRun, OwnSample, VerifiedFamily
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.contents.required_files import check_files
from worker.models.file_names import CONFIGURATION, GGUF_MODEL
from worker.models.manifest import MANIFEST, Manifest, records
from worker.models.model_folder import ModelFolder, read_manifest


def verify(
    folder: ModelFolder,
    sample: OwnSample,
    family: VerifiedFamily[OwnSample],
    *,
    other: ModelFolder | None = None,
    checkpoint: Path | None = None,
) -> Iterator[VerifyCheck]:
    """Compare the model with itself, its checkpoint and `other`, one check after the other.

    `checkpoint`: that an export was made from; the checkpoint of native graphs is in their manifest. Raises ModelError
    where a model does not run, SpecError where `other` has another vocabulary.
    """
    if other is not None:
        check_files(other)
        family.check_same_vocabulary(folder, other)
    run = family.run(folder, sample)
    yield from run.self_checks()
    manifest = read_manifest(folder)
    if manifest is not None and manifest.is_native:
        yield from _check_native(folder, manifest, family, run)
    elif manifest is not None and manifest.is_gguf:
        yield run.check_checkpoint(folder.path / GGUF_MODEL)
    else:
        yield _check_export(checkpoint or family.export_checkpoint(folder, manifest), family, run)
    if other is not None:
        yield run.compare("model", other.name, other.path)


def _check_native(
    folder: ModelFolder, manifest: Manifest, family: VerifiedFamily[Any], run: ModelRun
) -> Iterator[VerifyCheck]:
    """Native graphs against the checkpoint of their manifest, and approximations against fp32."""
    checkpoint, why = find_checkpoint(manifest)
    if checkpoint is None:
        yield VerifyCheck(name="checkpoint", against=manifest.source, verdict=Verdict.LEFT_OUT, note=why)
        return
    yield run.check_checkpoint(checkpoint)
    if not run.is_exact:
        with tempfile.TemporaryDirectory() as fp32:
            build_fp32(Path(fp32), folder.path, checkpoint, manifest, family)
            yield run.compare("precision", "fp32", Path(fp32))


def _check_export(checkpoint: Path | None, family: VerifiedFamily[Any], run: ModelRun) -> VerifyCheck:
    if checkpoint is None:
        return VerifyCheck(name="checkpoint", against="", verdict=Verdict.LEFT_OUT, note=family.no_checkpoint)
    return run.check_checkpoint(checkpoint)


def build_fp32(folder: Path, model: Path, checkpoint: Path, manifest: Manifest, family: VerifiedFamily[Any]) -> None:
    """Write to `folder` the model that `model` would be in fp32 with the full head, with the same settings."""
    family.write_fp32(folder, Checkpoint.open(checkpoint))
    for name in CONFIGURATION:
        if (model / name).is_file():
            (folder / name).write_bytes((model / name).read_bytes())
    names = [file.name for file in folder.iterdir()]
    exact = dataclasses.replace(
        manifest,
        precision=str(Precision.FP32),
        head="full" if manifest.head else None,
        head_ids=None,
        drift=None,
        files=records(folder, names),
    )
    (folder / MANIFEST).write_bytes(exact.to_bytes())
