"""`kvjobs models ls`: the list of models."""

from typing import TYPE_CHECKING

import click

from jobs.cli.context import Context
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Column, Output, output_options
from jobs.errors import ModelError
from jobs.text.formatting import NOTHING, figure, size
from worker.cli.models.verifications import standing_of, stored_verifications
from worker.models.contents.present_files import kind_of, layout_of
from worker.models.contents.required_files import check_files
from worker.models.contents.summary import num_bytes
from worker.models.drift import Drift, change
from worker.models.model_folder import ModelFolder, read_manifest
from worker.models.registry import list_models

if TYPE_CHECKING:
    from jobs.store.model_reports import Standing


@click.command()
@output_options(csv=True, ids=True)
@click.pass_obj
def ls(context: Context, output: Output) -> None:
    """List the models by name.

    First those in the models folder, then the bundled ones whose names are not taken. STATE tells whether all files
    exist; `kvjobs models inspect NAME` opens them. DRIFT and PERPLEXITY tell how far a model in int8 was from fp32 when
    it was added: the mean difference of a token's log-probability, in nats, and the change of the perplexity; of a
    cross-encoder, the mean difference of a score, in standard deviations. VERIFIED is the verdict of the newest `kvjobs
    models verify`: `same` or `measured` (int8, fp16) against its checkpoint, `with itself` where there was none.
    """
    folders = list_models(context.settings.models_dir)
    if output.is_table and not folders:
        print_message(
            f"There is no model in {context.settings.models_dir}. The path of a model's folder is a name too."
        )
        return
    stored = stored_verifications(context)
    output.rows(
        (_row(folder, standing_of(folder, stored)) for folder in folders),
        (
            Column("name", "MODEL"),
            Column("kind", "KIND", rank=1),
            Column("layout", "LAYOUT", rank=7),
            Column("precision", "PRECISION", rank=2),
            Column("size", "SIZE", size, right=True, rank=5),
            Column("state", "STATE"),
            Column("drift", "DRIFT", figure, right=True, rank=3),
            Column("perplexity_change", "PERPLEXITY", _change, right=True, rank=6),
            Column("standing", "VERIFIED", lambda word: word or NOTHING, rank=4),
            Column("path", "FOLDER", rank=8),
        ),
        (
            "name",
            "kind",
            "layout",
            "precision",
            "size",
            "state",
            "problem",
            "path",
            "verified",
            "verified_at",
            "verdict",
            "drift",
            "perplexity_change",
        ),
    )


def _change(share: float | None) -> str:
    return NOTHING if share is None else change(share)


def _row(folder: ModelFolder, standing: "Standing | None") -> dict[str, object]:
    kind = layout = precision = problem = drift = None
    try:
        kind = kind_of(folder).value
        layout = layout_of(folder)
        manifest = read_manifest(folder)
        precision = manifest.precision if manifest else None
        drift = manifest.drift if manifest else None
        check_files(folder)
    except ModelError as error:
        problem = str(error)
    return {
        "name": folder.name,
        "kind": kind,
        "layout": layout,
        "precision": precision,
        "size": num_bytes(folder),
        "state": "incomplete" if problem else "complete",
        "problem": problem,
        "path": str(folder.path),
        "standing": standing.word if standing else None,
        "verified": standing.words if standing else None,
        "verified_at": standing.verification.verified_at if standing else None,
        "verdict": standing.verification.verdict if standing and standing.is_current else None,
        "drift": drift.mean if drift else None,
        "perplexity_change": drift.perplexity_change if isinstance(drift, Drift) else None,
    }
