"""`kvjobs models inspect`: the description of a model, on one page."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from jobs.cli.context import Context
from jobs.cli.render.output import Output, output_options
from jobs.text.formatting import count, counted, moment, percent, size
from worker.cli.models.split import stage_lines
from worker.cli.models.verifications import standing_of, stored_verifications
from worker.models.model_kind import ModelKind
from worker.models.registry import DEFAULT_MODEL, find_model

if TYPE_CHECKING:
    from jobs.store.model_reports import Standing
    from worker.model_tools.inspect.description import GraphDescription, ModelDescription
    from worker.models.checkpoint.gguf_network import StoredType

LANGUAGES_SHOWN = 20
HAS_TEMPLATE = "has a chat template (submit --task generate --chat)"
NO_TEMPLATE = "no chat template; submit --task generate continues plain prompts"


@click.command()
@click.argument("name", default=DEFAULT_MODEL)
@output_options()
@click.pass_obj
def inspect(context: Context, output: Output, name: str) -> int:
    """Describe a model: layout, KV cache, vocabulary, graphs.

    NAME is a model's name or the path of its folder. If the model cannot be run, the page says why and how to export it
    correctly, and the exit code is 1. In the shape of a graph's input or output, a letter is a size that may differ
    from call to call.
    """
    from jobs.cli.render.layout import print_page
    from worker.model_tools.inspect.inspect import inspect_model

    folder = find_model(name, context.settings.models_dir)
    description = inspect_model(folder)
    standing = standing_of(folder, stored_verifications(context))
    output.record(
        {**description.to_dict(), "verification": standing.as_row() if standing else None},
        lambda: print_page(describe(description, standing)),
    )
    return 1 if description.problems else 0


def describe(model: "ModelDescription", standing: "Standing | None" = None) -> Iterator[str]:
    """The lines of the page."""
    yield f"Model {model.name}: {'can run' if not model.problems else 'cannot run'}"
    for problem in model.problems:
        yield f"  PROBLEM    {problem}"
    for warning in model.warnings:
        yield f"  WARNING    this model {warning}"
    yield f"  folder     {model.path}, {size(sum(file.num_bytes for file in model.files))}"
    yield f"  revision   {model.revision or 'unknown'}"
    if model.source:
        yield f"  source     {model.source}" + (f" at {model.source_revision}" if model.source_revision else "")
    yield f"  verified   {_verified(standing)}"
    yield f"  kind       {model.kind}" + (f", {model.architecture}" if model.architecture else "")
    yield f"  layout     {model.layout or 'unknown'}" + (f": {model.conclusion}" if model.conclusion else "")
    if model.precision:
        yield f"  precision  {model.precision}"
    if model.drift:
        yield f"  drift      from fp32, {model.drift.clause()}"
    if model.stored_types:
        yield f"  weights    {_shares(model.stored_types)}"
    if model.stages:
        yield f"  stages     {len(model.stages)}, of {model.split_of}"
        yield from stage_lines(model.stages)
    if model.num_layers is not None:
        yield (
            f"  cache      {counted(model.num_layers, 'layer')}, {counted(model.num_heads or 0, 'head')} of "
            f"size {model.head_size}"
            + (f" for {counted(model.num_query_heads, 'query head')}" if model.num_query_heads else "")
            + f", {model.cache_dtype}"
            + (f", {size(model.cache_bytes)} a token" if model.cache_bytes else "")
        )
    yield f"  width      {_known(model.width)} (hidden size)"
    yield f"  positions  {_known(model.max_positions)} (the longest sequence, in tokens)"
    yield from _vocabulary(model)
    for graph in model.graphs:
        yield ""
        yield from _graph(graph)


def _vocabulary(model: "ModelDescription") -> Iterator[str]:
    if model.kind == ModelKind.CAUSAL:
        marks = (("BOS", model.bos_id), ("EOS", model.eos_id))
        named = ", ".join(f"{name} is id {count(i)}" if i is not None else f"no {name}" for name, i in marks)
        yield f"  vocabulary {_known(model.vocab_size)} tokens; {named}{_bos_rule(model)}"
        if model.has_chat_template is not None:
            yield f"  chat       {HAS_TEMPLATE if model.has_chat_template else NO_TEMPLATE}"
        return
    if model.kind == ModelKind.CROSS_ENCODER:
        yield f"  vocabulary {_known(model.vocab_size)} tokens"
        yield f"  relevance  {model.relevance or 'unknown'}"
        yield f"  pairs      {_known(model.pair_length)} tokens at most, unless submit --max-length asks for others"
        return
    sizes = f"{_known(model.source_vocab_size)} source tokens, {_known(model.target_vocab_size)} target tokens"
    yield f"  vocabulary {sizes}" + (
        f"; the model generates {count(model.num_target_ids)} of them (--head target)" if model.head == "target" else ""
    )
    if model.unlisted_pad_id is not None:
        yield (
            f"  padding    id {count(model.unlisted_pad_id)} is never generated, though the model's settings allow it; "
            "submit --allow-pad allows it, as transformers does"
        )
    if model.languages:
        more = len(model.languages) - LANGUAGES_SHOWN
        shown = " ".join(model.languages[:LANGUAGES_SHOWN])
        yield f"  languages  {shown}{f' and {more} more' if more > 0 else ''} (--target-language)"


def _shares(types: "Sequence[StoredType]") -> str:
    """The share of each type in the bytes of all weights."""
    total = max(1, sum(stored.num_bytes for stored in types))
    shares = ", ".join(f"{percent(stored.num_bytes / total)} {stored.name}" for stored in types)
    return f"{size(total)} for {count(sum(stored.num_weights for stored in types))} weights: {shares}"


def _bos_rule(model: "ModelDescription") -> str:
    if not model.stored_types:
        return ""
    if model.adds_bos is None:
        return "; whether a text gets a BOS, llama.cpp decides by the kind of the vocabulary"
    return "; a text gets a BOS (add_bos_token)" if model.adds_bos else "; a text gets no BOS (add_bos_token)"


def _graph(graph: "GraphDescription") -> Iterator[str]:
    yield graph.file + ("" if graph.is_used else " (not used)")
    if graph.problem:
        yield f"  PROBLEM {graph.problem}"
    if graph.ir_version is not None:
        opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(graph.opsets.items()))
        yield f"  IR version {graph.ir_version}; operators: {opsets}" + (
            f"; written by {graph.producer}" if graph.producer else ""
        )
    for direction, tensors in (("input ", graph.inputs), ("output", graph.outputs)):
        for tensor in tensors:
            shape = ", ".join("?" if axis is None else str(axis) for axis in tensor.shape)
            yield f"  {direction} {tensor.name}: {tensor.type} [{shape}]"


def _verified(standing: "Standing | None") -> str:
    if standing is None:
        return "never (kvjobs models verify)"
    found = standing.verification
    return f"{standing.words}: {moment(found.verified_at)}, kvjobs {found.version}, {found.compared}"


def _known(number: int | None) -> str:
    return "unknown" if number is None else count(number)
