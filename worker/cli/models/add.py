"""`kvjobs models add`: a checkpoint or an export becomes a model."""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from jobs.cli.context import Context
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Output, output_options
from jobs.formatting import counted, duration, size
from worker.graphs.precision import Precision
from worker.model_tools.add.target_ids import HeadChoice
from worker.models.model_kind import ModelKind

if TYPE_CHECKING:
    from worker.model_tools.add.add import Added


@click.command()
@click.argument("source")
@click.option(
    "--precision",
    type=click.Choice([str(precision) for precision in Precision]),
    help="fp32 says what the checkpoint says; int8 is faster and near it; fp16 is for GPUs.  [default: fp32]",
)
@click.option(
    "--head",
    type=click.Choice([str(head) for head in HeadChoice]),
    help="Target ids that a translation model can say: every one, or those of target.spm.  [default: full; target for "
    "int8]",
)
@click.option(
    "--name", help="What to call it.  [default: the last part of SOURCE, and the precision unless it is fp32]"
)
@click.option("--force", is_flag=True, help="Replace a model of that name.")
@click.option(
    "--accept-departures",
    is_flag=True,
    help="Take an export although its graph computes something else than its config.json asks for.",
)
@click.option(
    "--checkpoint",
    metavar="FOLDER",
    help="What an export was made of, to compare a sample with.  [default: the weights beside it, if any]",
)
@output_options()
@click.pass_obj
def add(
    context: Context,
    output: Output,
    source: str,
    precision: str | None,
    head: str | None,
    name: str | None,
    force: bool,
    accept_departures: bool,
    checkpoint: str | None,
) -> None:
    """Make a model of SOURCE and put it into the models folder.

    SOURCE is a checkpoint of a translation model (Marian, OPUS-MT) or of a causal language model (Llama, Mistral,
    Qwen2, Qwen3): an id of the Hugging Face hub, OWNER/NAME or OWNER/NAME@REVISION, or a folder. Graphs are built of
    it. An ONNX export is copied as it is; one of a causal model is compared with what its config.json asks for, and
    with its checkpoint where that is at hand. Quantized checkpoints, adapters (LoRA), GGUF files, and models that bring
    code of their own are refused by name. Nothing half-made stays behind: what was interrupted can be run again, and a
    download goes on where it stopped. HF_ENDPOINT, HF_HOME, HF_HUB_OFFLINE and HF_TOKEN hold.
    """
    from worker.model_tools.add.add import Request, add_model

    request = Request(
        source=source,
        precision=Precision(precision) if precision else None,
        head=HeadChoice(head) if head else None,
        name=name,
        force=force,
        accept_departures=accept_departures,
        checkpoint=checkpoint,
    )
    added = add_model(request, context.settings.models_dir)
    if added.note:
        print_message(added.note)
    from jobs.cli.render.layout import print_page

    output.record(dataclasses.asdict(added), lambda: print_page(describe_added(added)))
    for warning in added.warnings:
        print_message(f"Warning: {added.name} {warning}.")
    if output.is_table:
        if added.precision == Precision.FP16:
            print_message(
                "fp16 is for GPUs: kvjobs worker --device cuda:0. On a CPU, fp32 is as fast and exact, int8 faster."
            )
        if added.precision == Precision.INT8:
            print_message(
                f"int8 is near fp32; how near, on your documents: kvjobs models verify {added.name} --sample CORPUS"
            )
        queue = " --queue gpu" if added.precision == Precision.FP16 else ""
        task = " --task score" if added.kind == ModelKind.CAUSAL else ""
        print_message(f"Next: kvjobs submit CORPUS{task} --model {added.name}{queue} --wait")


def describe_added(added: "Added") -> Iterator[str]:
    """What `add` made, line by line."""
    yield f"Model {added.name}, made in {duration(added.seconds)}"
    yield f"  folder     {added.path}, {size(added.num_bytes)}"
    yield f"  kind       {added.kind}"
    yield f"  layout     {added.layout}"
    if added.precision:
        yield f"  precision  {added.precision}"
    if added.head:
        yield f"  head       {added.head}, {counted(added.head_size or 0, 'id')}"
    yield f"  source     {added.source}" + (f" at {added.source_revision}" if added.source_revision else "")
