"""`kvjobs models verify`: whether a model computes what its checkpoint does."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobs.cli.context import Context
from jobs.cli.number_types import number_type
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Column, Output, output_options
from jobs.errors import SpecError
from jobs.number_ranges import Whole
from jobs.system.requirements import install_command
from jobs.text.formatting import NOTHING, count, counted, figure, percent
from worker.cli.models.verifications import store_verification
from worker.models.contents.present_files import kind_of
from worker.models.contents.required_files import check_files
from worker.models.drift import Drift, change, is_large
from worker.models.model_kind import ModelKind
from worker.models.registry import DEFAULT_MODEL, find_model

if TYPE_CHECKING:
    from worker.model_tools.verify.checks import VerifyCheck
    from worker.model_tools.verify.protocol import VerifiedFamily

CHECK_FIELDS = (
    "name", "against", "verdict", "num_segments", "exact", "tokens", "chrf", "worst", "drift", "perplexity", "note",
)  # fmt: skip
CHECK_COLUMNS = (
    Column("name", "CHECK"),
    Column("against", "AGAINST"),
    Column("verdict", "VERDICT"),
    Column("num_segments", "SEGMENTS", count, right=True, rank=5),
    Column("exact", "SAME SEGMENTS", lambda share: NOTHING if share is None else percent(share), right=True, rank=4),
    Column("tokens", "SAME TOKENS", lambda share: NOTHING if share is None else percent(share), right=True, rank=1),
    Column("chrf", "CHRF", figure, right=True, rank=2),
    Column("drift", "DRIFT", figure, right=True, rank=3),
)
CAUSAL_CHECK_FIELDS = (
    "name", "against", "verdict", "num_segments", "num_tokens", "worst", "drift", "nats", "perplexity", "note",
)  # fmt: skip
CAUSAL_CHECK_COLUMNS = (
    Column("name", "CHECK"),
    Column("against", "AGAINST"),
    Column("verdict", "VERDICT"),
    Column("num_segments", "DOCUMENTS", count, right=True, rank=5),
    Column("num_tokens", "TOKENS", lambda tokens: NOTHING if tokens is None else count(tokens), right=True, rank=6),
    Column("worst", "WORST TOKEN", figure, right=True, rank=1),
    Column("drift", "DRIFT", figure, right=True, rank=4),
    Column("nats", "NATS/TOKEN", figure, right=True, rank=2),
    Column(
        "perplexity",
        "PERPLEXITY",
        lambda share: NOTHING if share is None else f"{figure(100 * share, is_signed=True)} %",
        right=True,
        rank=3,
    ),
)
PAIR_CHECK_FIELDS = ("name", "against", "verdict", "num_segments", "worst", "drift", "relevance", "note")
PAIR_CHECK_COLUMNS = (
    Column("name", "CHECK"),
    Column("against", "AGAINST"),
    Column("verdict", "VERDICT"),
    Column("num_segments", "PAIRS", count, right=True, rank=3),
    Column("worst", "WORST LOGIT", figure, right=True, rank=1),
    Column("drift", "DRIFT", figure, right=True, rank=2),
)
_COLUMNS = {
    ModelKind.TRANSLATION: CHECK_COLUMNS,
    ModelKind.CAUSAL: CAUSAL_CHECK_COLUMNS,
    ModelKind.CROSS_ENCODER: PAIR_CHECK_COLUMNS,
}
_FIELDS = {
    ModelKind.TRANSLATION: CHECK_FIELDS,
    ModelKind.CAUSAL: CAUSAL_CHECK_FIELDS,
    ModelKind.CROSS_ENCODER: PAIR_CHECK_FIELDS,
}


@click.command()
@click.argument("name", default=DEFAULT_MODEL)
@click.option(
    "--sample",
    metavar="CORPUS",
    help="A corpus to take the texts from, as for submit.  [default: bundled weather bulletins]",
)
@click.option(
    "--limit",
    metavar="N",
    type=number_type(Whole(1)),
    default=100,
    show_default=True,
    help="Use at most so many sentences (to translate) or documents (to score).",
)
@click.option("--against", metavar="NAME", help="Compare with this model, which has the same vocabulary.")
@click.option("--checkpoint", metavar="FOLDER", help="Compare an exported causal model with this checkpoint.")
@click.option(
    "--source-language", metavar="CODE", default="en", show_default=True, help="The language for splitting sentences."
)
@click.option(
    "--target-language",
    metavar="LABEL",
    help="For a model with several target languages: the label, without >> and <<.",
)
@output_options()
@click.pass_obj
def verify(
    context: Context,
    output: Output,
    name: str,
    sample: str | None,
    limit: int,
    against: str | None,
    checkpoint: str | None,
    source_language: str,
    target_language: str | None,
) -> int:
    """Check that a model computes what its checkpoint computes.

    Translation models: tokens with the KV cache against those without; native graphs against the checkpoint (through
    transformers if it is installed, else a numpy implementation); int8 and fp16 against fp32. The table shows the share
    of equal segments and tokens, the chrF of the texts, and the difference of log-probabilities in nats per token
    (DRIFT), against fp32 of the tokens of its translations.

    Causal language models: the log-probability of each token in a batch against alone, after a shared prefix against
    computed whole, and against the checkpoint, also beyond every limit in config.json; and what int8 and fp16 cost, in
    nats per token and in perplexity.

    Cross-encoders: the logit of each pair of a query and a document in a batch against alone, and against the
    checkpoint; a corpus is one as for reranking.

    A warning says where a model in int8 or fp16 is far from fp32, by the bounds of `kvjobs models add`. The result is
    stored in the database; `kvjobs models ls`, `models inspect` and the dashboard show it.

    Exit code 1 if results differ that must be equal.
    """
    models_dir = context.settings.models_dir
    folder = find_model(name, models_dir)
    check_files(folder)
    other = find_model(against, models_dir) if against else None
    kind = kind_of(folder)
    if other is not None and kind_of(other) is not kind:
        raise SpecError(f"{name} is {kind.noun} and {against} {kind_of(other).noun}: they cannot be compared")
    if kind is not ModelKind.TRANSLATION and target_language is not None:
        raise SpecError(f"{name} is {kind.noun}, which has no --target-language: leave it out")
    if kind is not ModelKind.CAUSAL and checkpoint is not None:
        raise SpecError(f"--checkpoint is for exported causal models, and {name} is {kind.noun}: leave it out")
    from worker.model_tools.verify.causal import VerifiedCausal  # loads onnxruntime
    from worker.model_tools.verify.cross_encoder import VerifiedCrossEncoder
    from worker.model_tools.verify.seq2seq import VerifiedSeq2Seq
    from worker.model_tools.verify.verify import verify as run_checks

    families: Mapping[ModelKind, VerifiedFamily[Any]] = {
        ModelKind.TRANSLATION: VerifiedSeq2Seq(source_language=source_language, target_language=target_language),
        ModelKind.CAUSAL: VerifiedCausal(),
        ModelKind.CROSS_ENCODER: VerifiedCrossEncoder(),
    }
    family = families[kind]
    texts = family.read_sample(folder, sample, limit)
    before = folder.stamp(), folder.revision()
    print_message(f"{folder.name}: {counted(len(texts), family.unit)} ...")
    checks = list(run_checks(folder, texts, family, other=other, checkpoint=Path(checkpoint) if checkpoint else None))
    # Before it is printed: whoever reads the output may close it early (`| head`).
    store_verification(context, folder, before, checks, num_texts=len(texts), text_unit=family.unit, corpus=sample)
    output.rows(
        map(dataclasses.asdict, checks),
        _COLUMNS[kind],
        _FIELDS[kind],
    )
    for check in checks:
        if check.note:
            print_message(f"{check.name}: {check.note}")
    if kind is ModelKind.TRANSLATION and any(
        check.chrf is None for check in checks if check.name in ("precision", "model")
    ):
        print_message(f"No chrF: it needs the package sacrebleu; to install it: {install_command('sacrebleu')}")
    for check in checks:
        if check.name == "precision" and (warning := _drift_warning(check)):
            print_message(f"Warning: {folder.name} {warning}")
    failed = [check for check in checks if check.has_failed]
    for check in failed:
        print_message(
            f"Error: {check.name}: the model's results differ from those of the reference ({check.against}); do not "
            f"use it, and report this with the output of: kvjobs models inspect {folder.name}"
        )
    return 1 if failed else 0


def _drift_warning(check: "VerifyCheck") -> str | None:
    """What the user should know of a model's distance from fp32; None: it is small."""
    if (found := check.relevance) and found.is_large:
        figures, bounds = found.clause(), found.bounds()
    elif check.perplexity is not None and check.drift is not None and is_large(check.perplexity, check.drift):
        figures = (
            f"perplexity {change(check.perplexity)}, a token's log-probability by {figure(check.drift)} nats on "
            f"average, {figure(check.worst)} at most"
        )
        bounds = Drift.bounds()
    else:
        return None
    return (
        f"is far from fp32 on these texts: {figures}; the bound is {bounds}. To compute what the checkpoint does: "
        "kvjobs models add SOURCE --precision fp32"
    )
