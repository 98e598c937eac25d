"""`kvjobs models`: the models that there are, what is in them, and how others become one."""

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jobs.cli.context import Context
from jobs.cli.render.formatting import NOTHING, count, counted, duration, percent, size
from jobs.cli.render.output import Column, Output, output_options
from jobs.cli.render.terminal import say
from jobs.errors import ModelError, SpecError
from jobs.requirements import install_command
from worker.graphs.precision import Precision
from worker.model_tools.add.target_ids import HeadChoice
from worker.models.model_kind import ModelKind
from worker.models.registry import (
    DEFAULT_MODEL,
    ModelFolder,
    check_files,
    find_model,
    kind_of,
    layout_of,
    list_models,
    read_manifest,
)

if TYPE_CHECKING:
    from worker.model_tools.add.add import Added
    from worker.model_tools.inspect.description import GraphDescription, ModelDescription
    from worker.model_tools.verify.checks import Check

LANGUAGES_SHOWN = 20
LONGEST_SENTENCE = 512  # tokens, where config.json does not say how many positions there are
CHECK_FIELDS = ("name", "against", "verdict", "num_segments", "exact", "tokens", "chrf", "drift", "note")
CHECK_COLUMNS = (
    Column("name", "CHECK"),
    Column("against", "AGAINST"),
    Column("verdict", "VERDICT"),
    Column("num_segments", "SEGMENTS", count, right=True, rank=5),
    Column("exact", "SAME SEGMENTS", lambda share: NOTHING if share is None else percent(share), right=True, rank=4),
    Column("tokens", "SAME TOKENS", lambda share: NOTHING if share is None else percent(share), right=True, rank=1),
    Column("chrf", "CHRF", lambda score: NOTHING if score is None else f"{score:.2f}", right=True, rank=2),
    Column("drift", "DRIFT", lambda nats: NOTHING if nats is None else f"{nats:.1e}", right=True, rank=3),
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
    Column("worst", "WORST TOKEN", lambda nats: NOTHING if nats is None else f"{nats:.1e}", right=True, rank=1),
    Column("drift", "DRIFT", lambda nats: NOTHING if nats is None else f"{nats:.1e}", right=True, rank=4),
    Column("nats", "NATS/TOKEN", lambda nats: NOTHING if nats is None else f"{nats:.4f}", right=True, rank=2),
    Column(
        "perplexity",
        "PERPLEXITY",
        lambda share: NOTHING if share is None else f"{100 * share:+.3f} %",
        right=True,
        rank=3,
    ),
)


@click.group()
def models() -> None:
    """See the models that there are, and add others."""


@models.command()
@output_options(csv=True, ids=True)
@click.pass_obj
def ls(context: Context, output: Output) -> None:
    """List the models by name: those of the models folder, then the bundled ones that they do not hide.

    Only looks whether every file is there; `kvjobs models inspect NAME` opens them.
    """
    folders = list_models(context.settings.models_dir)
    if output.is_table and not folders:
        say(f"There is no model in {context.settings.models_dir}. The path of a model folder works as a name too.")
        return
    output.rows(
        map(_row, folders),
        (
            Column("name", "MODEL"),
            Column("kind", "KIND", rank=1),
            Column("layout", "LAYOUT", rank=4),
            Column("precision", "PRECISION", rank=2),
            Column("size", "SIZE", size, right=True, rank=3),
            Column("state", "STATE"),
            Column("path", "FOLDER", rank=5),
        ),
        ("name", "kind", "layout", "precision", "size", "state", "problem", "path"),
    )


@models.command()
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
        say(added.note)
    from jobs.cli.render.layout import print_page

    output.record(dataclasses.asdict(added), lambda: print_page(describe_added(added)))
    for warning in added.warnings:
        say(f"Warning: {added.name} {warning}.")
    if output.is_table:
        if added.precision == Precision.FP16:
            say("fp16 is for GPUs: kvjobs worker --device cuda:0. On a CPU, fp32 is as fast and exact, int8 faster.")
        if added.precision == Precision.INT8:
            say(f"int8 is near fp32; how near, on your documents: kvjobs models verify {added.name} --sample CORPUS")
        queue = " --queue gpu" if added.precision == Precision.FP16 else ""
        task = " --task score" if added.kind == ModelKind.CAUSAL else ""
        say(f"Next: kvjobs submit CORPUS{task} --model {added.name}{queue} --wait")


@models.command()
@click.argument("name", default=DEFAULT_MODEL)
@output_options()
@click.pass_obj
def inspect(context: Context, output: Output, name: str) -> int:
    """Open a model and say what it is: its layout, its cache, the inputs and outputs of each graph.

    NAME is a model's name or the path of its folder. For a model that cannot be run: what is wrong with it, and how to
    export it right; the exit code is 1.
    """
    from jobs.cli.render.layout import print_page
    from worker.model_tools.inspect.inspect import inspect_model

    description = inspect_model(find_model(name, context.settings.models_dir))
    output.record(description.to_dict(), lambda: print_page(describe(description)))
    return 1 if description.problems else 0


@models.command()
@click.argument("name", default=DEFAULT_MODEL)
@click.option(
    "--sample", metavar="CORPUS", help="Texts to try it with, as submit reads them.  [default: weather bulletins]"
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Of the sample: sentences to translate, or documents to score.",
)
@click.option("--against", metavar="NAME", help="Another model with the same vocabulary, to compare with.")
@click.option("--checkpoint", metavar="FOLDER", help="What an exported causal model was made of, to compare with.")
@click.option("--source-language", metavar="CODE", default="en", show_default=True, help="For cutting sentences.")
@click.option("--target-language", metavar="LABEL", help="Of a multilingual model, without >> and <<.")
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
    """Compare a model with itself and with what it was made of.

    Each token with the cache against the same without; graphs of our own against the checkpoint itself (through
    transformers where it is installed, else in numpy); int8 and fp16 against fp32: segments and tokens that are the
    same, chrF of the texts, and by how much log-probabilities drift, in nats a token. Of a causal language model, the
    log-probability of each token: together and alone, behind a beginning that was computed once and whole, against the
    checkpoint, also past each limit that config.json names; and what int8 and fp16 cost, in nats a token and in
    perplexity. Exit code 1 if something differs that has to be the same.
    """
    models_dir = context.settings.models_dir
    folder = find_model(name, models_dir)
    check_files(folder)
    other = find_model(against, models_dir) if against else None
    is_causal = kind_of(folder) is ModelKind.CAUSAL
    if other is not None and kind_of(other) is not kind_of(folder):
        raise SpecError(
            f"{name} is {kind_of(folder).noun} and {against} {kind_of(other).noun}: they cannot be compared"
        )
    if is_causal:
        if target_language is not None:
            raise SpecError(f"{name} is {ModelKind.CAUSAL.noun}, which has no --target-language: leave it out")
        checks = _verify_causal(folder, sample, limit, other, checkpoint)
    else:
        if checkpoint is not None:
            raise SpecError(f"--checkpoint is for exported causal models, and {name} translates: leave it out")
        checks = _verify_translation(
            folder, sample, limit, other, source_language=source_language, target_language=target_language
        )
    output.rows(
        map(dataclasses.asdict, checks),
        CAUSAL_CHECK_COLUMNS if is_causal else CHECK_COLUMNS,
        CAUSAL_CHECK_FIELDS if is_causal else CHECK_FIELDS,
    )
    for check in checks:
        if check.note:
            say(f"{check.name}: {check.note}")
    if not is_causal and any(check.chrf is None for check in checks if check.name in ("precision", "model")):
        say(f"chrF was left out: it needs the package sacrebleu: {install_command('sacrebleu')}")
    failed = [check for check in checks if check.has_failed]
    for check in failed:
        say(
            f"Error: {check.name}: the model does not say the same as the other side ({check.against}); do not use it, "
            f"and report it with what `kvjobs models inspect {folder.name}` prints"
        )
    return 1 if failed else 0


def _verify_translation(
    folder: ModelFolder,
    sample: str | None,
    limit: int,
    other: ModelFolder | None,
    *,
    source_language: str,
    target_language: str | None,
) -> list["Check"]:
    from worker.model_tools.sample import read_sample
    from worker.model_tools.verify.verify import verify
    from worker.models.json_file import read_json
    from worker.text.marian_tokenizer import MarianTokenizer

    tokenizer = MarianTokenizer.open(folder.path)
    tokenizer.check_language(target_language)
    segments = read_sample(
        sample,
        tokenizer,
        source_language=source_language,
        target_language=target_language,
        max_tokens=int(read_json(folder.path / "config.json").get("max_position_embeddings", LONGEST_SENTENCE)),
        limit=limit,
    )
    say(f"{folder.name}: {counted(len(segments), 'segment')} ...")
    return list(verify(folder, segments, tokenizer.decode, other=other))


def _verify_causal(
    folder: ModelFolder, sample: str | None, limit: int, other: ModelFolder | None, checkpoint: str | None
) -> list["Check"]:
    from worker.model_tools.sample import read_documents
    from worker.model_tools.verify.verify_causal import verify_causal
    from worker.text.causal_tokenizer import CausalTokenizer

    documents = read_documents(sample, CausalTokenizer.open(folder.path), limit=limit)
    say(f"{folder.name}: {counted(len(documents), 'document')} ...")
    of = Path(checkpoint) if checkpoint else None
    return list(verify_causal(folder, documents, other=other, checkpoint=of))


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


def describe(model: "ModelDescription") -> Iterator[str]:
    """The page, line by line."""
    yield f"Model {model.name}: {'can run' if not model.problems else 'cannot run'}"
    for problem in model.problems:
        yield f"  PROBLEM    {problem}"
    for warning in model.warnings:
        yield f"  WARNING    it {warning}"
    yield f"  folder     {model.path}, {size(sum(file.num_bytes for file in model.files))}"
    yield f"  revision   {model.revision or 'unknown'}"
    if model.source:
        yield f"  source     {model.source}" + (f" at {model.source_revision}" if model.source_revision else "")
    yield f"  kind       {model.kind}" + (f", {model.architecture}" if model.architecture else "")
    yield f"  layout     {model.layout or 'unknown'}" + (f": {model.conclusion}" if model.conclusion else "")
    if model.precision:
        yield f"  precision  {model.precision}"
    if model.num_layers is not None:
        yield (
            f"  cache      {counted(model.num_layers, 'layer')}, {counted(model.num_heads or 0, 'head')} of "
            f"{model.head_size}, {model.cache_dtype}"
            + (f", for {counted(model.num_query_heads, 'query head')}" if model.num_query_heads else "")
        )
    yield f"  width      {_known(model.width)}"
    yield f"  positions  {_known(model.max_positions)}"
    yield from _vocabulary(model)
    for graph in model.graphs:
        yield ""
        yield from _graph(graph)


def _vocabulary(model: "ModelDescription") -> Iterator[str]:
    if model.kind == ModelKind.CAUSAL:
        marks = ((name, token_id) for name, token_id in (("BOS", model.bos_id), ("EOS", model.eos_id)))
        named = ", ".join(f"{name} {'none' if token_id is None else count(token_id)}" for name, token_id in marks)
        yield f"  vocabulary {_known(model.vocab_size)}, {named}"
        return
    yield f"  vocabulary {_known(model.source_vocab_size)} in, {_known(model.target_vocab_size)} out" + (
        f"; the head keeps {count(model.num_target_ids)}" if model.head == "target" else ""
    )
    if model.unlisted_pad_id is not None:
        yield (
            f"  padding    id {count(model.unlisted_pad_id)} is never generated, though the model's settings allow it: "
            "submit --allow-pad does as transformers does"
        )
    if model.languages:
        more = len(model.languages) - LANGUAGES_SHOWN
        shown = " ".join(model.languages[:LANGUAGES_SHOWN])
        yield f"  languages  {shown}{f' and {more} more' if more > 0 else ''} (--target-language)"


def _graph(graph: "GraphDescription") -> Iterator[str]:
    yield graph.file + ("" if graph.is_used else " (not used)")
    if graph.problem:
        yield f"  PROBLEM {graph.problem}"
    if graph.ir_version is not None:
        opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(graph.opsets.items()))
        yield f"  IR version {graph.ir_version}; operators: {opsets}" + (
            f"; written by {graph.producer}" if graph.producer else ""
        )
    for arrow, tensors in (("->", graph.inputs), ("<-", graph.outputs)):
        for tensor in tensors:
            shape = ", ".join("?" if axis is None else str(axis) for axis in tensor.shape)
            yield f"  {arrow} {tensor.name}: {tensor.type} [{shape}]"


def _row(folder: ModelFolder) -> dict[str, object]:
    kind = layout = precision = problem = None
    try:
        kind = kind_of(folder).value
        layout = layout_of(folder)
        manifest = read_manifest(folder)
        precision = manifest.precision if manifest else None
        check_files(folder)
    except ModelError as error:
        problem = str(error)
    return {
        "name": folder.name,
        "kind": kind,
        "layout": layout,
        "precision": precision,
        "size": _num_bytes(folder),
        "state": "incomplete" if problem else "complete",
        "problem": problem,
        "path": str(folder.path),
    }


def _num_bytes(folder: ModelFolder) -> int:
    return sum(os.path.getsize(os.path.join(place, file)) for place, _, files in os.walk(folder.path) for file in files)


def _known(number: int | None) -> str:
    return "unknown" if number is None else count(number)
