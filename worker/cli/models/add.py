"""`kvjobs models add`: make a model of a checkpoint or an export."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from jobs.cli.choice import SuggestingChoice
from jobs.cli.context import Context
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Output, output_options
from jobs.cli.render.reading_progress import logged_status
from jobs.text.formatting import counted, duration, plain, size
from worker.graphs.precision import Precision
from worker.model_tools.add.target_ids import HeadChoice
from worker.models.manifest import GGUF
from worker.models.model_kind import ModelKind

if TYPE_CHECKING:
    from worker.model_tools.add.add import Added


@click.command()
@click.argument("source")
@click.option(
    "--precision",
    type=SuggestingChoice([str(precision) for precision in Precision]),
    help="fp32 computes what the checkpoint does; int8 is faster and an approximation, which is measured; fp16 is for "
    "GPUs.  [default: fp32]",
)
@click.option(
    "--head",
    type=SuggestingChoice([str(head) for head in HeadChoice]),
    help="The target tokens that a translation model can generate: all, or only those of target.spm.  [default: full; "
    "target for int8]",
)
@click.option(
    "--name", help="The name of the model.  [default: the last part of SOURCE, and the precision unless fp32]"
)
@click.option(
    "--keep-gguf",
    is_flag=True,
    help="Keep a GGUF file as it is, for llama.cpp, also if graphs could be built of it.",
)
@click.option("--force", is_flag=True, help="Replace a model of the same name.")
@click.option(
    "--accept-departures",
    is_flag=True,
    help="Add an export even if its graph does not compute what its config.json asks for.",
)
@click.option(
    "--checkpoint",
    metavar="FOLDER",
    help="The checkpoint of an export, to compare results with.  [default: the weights beside the export, if any]",
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
    keep_gguf: bool,
    force: bool,
    accept_departures: bool,
    checkpoint: str | None,
) -> None:
    """Add SOURCE to the models folder.

    SOURCE is the checkpoint of a translation model (OPUS-MT, M2M100, NLLB-200, mBART-50, T5, MADLAD-400) or of a causal
    language model (Llama, Mistral, Qwen, Gemma, Phi, GPT-2 and others: docs/models.md), or an ONNX export: an id on the
    Hugging Face hub, OWNER/NAME or OWNER/NAME@REVISION, or a folder.
    Or it is a GGUF file of such a causal language model, quantized or not: graphs are built of its dequantized weights.
    A tokenizer.json beside the file is used in place of the file's own vocabulary. A GGUF file of another architecture
    is copied unchanged, and runs with llama.cpp (--providers llamacpp).

    Weights of a causal model in int8 are rounded by what each layer reads on paragraphs that come with kvjobs: that
    takes minutes for large models. A model in int8 is then compared with graphs in fp32, which are removed afterwards,
    on other paragraphs in ten languages and code; larger models read fewer of their tokens. How far it is from fp32 is
    stored with the model, and a warning is printed above a bound.

    ONNX graphs are built from a checkpoint; so is its tokenizer.json, where it has only the files of an older tokenizer
    (docs/models.md says of which). An export is copied unchanged; if it is a causal model, its graph is
    checked against its config.json, and against its checkpoint if there is one. Quantized checkpoints, adapters (LoRA)
    and models of classes of their own, which need code that is not run, are refused.

    An interrupted command leaves no incomplete model; run it again, and the download continues where it stopped.
    HF_ENDPOINT, HF_HOME, HF_HUB_OFFLINE and HF_TOKEN are respected.
    """
    from worker.model_tools.add.add import Request, add_model

    request = Request(
        source=source,
        precision=Precision(precision) if precision else None,
        head=HeadChoice(head) if head else None,
        name=name,
        keep_gguf=keep_gguf,
        force=force,
        accept_departures=accept_departures,
        checkpoint=checkpoint,
    )
    with logged_status("worker.model_tools.add"):
        added = add_model(request, context.settings.models_dir)
    if added.note:
        print_message(added.note)
    from jobs.cli.render.layout import print_page

    output.record(dataclasses.asdict(added), lambda: print_page(describe_added(added)))
    for warning in added.warnings:
        print_message(f"Warning: {added.name} {warning}.")
    if added.drift and added.drift.is_large:
        print_message(
            f"Warning: {added.name} is far from fp32: int8 drift {added.drift.clause()}; the bound is "
            f"{added.drift.bounds()}. To compute what the checkpoint does, add it with --precision fp32. To measure "
            f"the drift on your own text: kvjobs models verify {added.name} --sample CORPUS"
        )
    if output.is_table:
        if added.bits_per_weight and added.bits_per_weight < _WHOLE:
            print_message(_rounded_message(added))
        elif added.precision == Precision.INT8 and not (added.drift and added.drift.is_large):
            print_message(_drift_message(added))
        if added.precision == Precision.FP16:
            print_message(
                "fp16 is for GPUs: kvjobs worker --device cuda:0. On a CPU, fp32 is as fast and exact, int8 is faster."
            )
        if added.target_languages and not added.must_name_target:
            languages = ", ".join(added.target_languages[:_NUM_SHOWN])
            print_message(
                f"A job may name a --target-language ({languages}); without one the model's own settings count."
            )
        queue = " --queue gpu" if added.precision == Precision.FP16 else ""
        task = " --target-language LANG" if added.must_name_target else _NEXT_TASK.get(added.kind, "")
        queue += " --providers llamacpp" if added.layout == GGUF else ""
        print_message(f"Next: kvjobs submit CORPUS{task} --model {added.name}{queue} --wait")


_NUM_SHOWN = 12  # languages in a message
_WHOLE = 16  # bits of a weight, from which on it counts as not rounded
_NEXT_TASK: Mapping[str, str] = {ModelKind.CAUSAL: " --task score", ModelKind.CROSS_ENCODER: " --task rerank"}


def _rounded_message(added: "Added") -> str:
    """The message about graphs built of a quantized GGUF file: what they gain, and what int8 costs in addition."""
    bits = plain(round(added.bits_per_weight or 0, 1))
    had = f"The weights were already rounded, to about {bits} bits each: graphs of them gain speed"
    if added.precision != Precision.INT8:
        return f"{had}, not accuracy, and are larger. --precision int8 is smaller and faster, and says what it costs."
    if added.drift is None or added.drift.is_large:  # a warning has the figures
        return f"{had}, not accuracy." if added.drift else f"{had}, not accuracy. {_drift_message(added)}"
    return f"{had}, not accuracy. What int8 costs on top, {added.drift.clause()}."


def _drift_message(added: "Added") -> str:
    """How far a model in int8 is from fp32, or how to find out."""
    if added.drift:
        return f"int8 drift {added.drift.clause()}."
    why = f"int8 drift was not measured: {added.drift_note}" if added.drift_note else "int8 is an approximation"
    return f"{why}. To measure it on your own text: kvjobs models verify {added.name} --sample CORPUS"


def describe_added(added: "Added") -> Iterator[str]:
    """The lines of the page about a new model."""
    yield f"Model {added.name}, added in {duration(added.seconds)}"
    yield f"  folder     {added.path}, {size(added.num_bytes)}"
    yield f"  kind       {added.kind}"
    yield f"  layout     {added.layout}"
    if added.precision:
        yield f"  precision  {added.precision}"
    if added.head:
        yield f"  head       {added.head}, {counted(added.head_size or 0, 'id')}"
    yield f"  source     {added.source}" + (f" at {added.source_revision}" if added.source_revision else "")
