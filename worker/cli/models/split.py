"""`kvjobs models split`: cut a model into stages."""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from jobs.cli.context import Context
from jobs.cli.number_types import number_type
from jobs.cli.parsed_type import Parsed
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Output, output_options
from jobs.number_ranges import Whole, read_size
from jobs.text.formatting import counted, duration, percent, size

if TYPE_CHECKING:
    from worker.model_tools.inspect.stages import StageDescription
    from worker.model_tools.split.split import SplitModel


@click.command()
@click.argument("name")
@click.option(
    "--stages", metavar="N", type=number_type(Whole(2, 1000)), default=2, show_default=True, help="How many parts."
)
@click.option(
    "--devices",
    metavar="DEVICE,...",
    help="Where each stage runs, in their order: cpu or cuda:N. One device is for all.  [default: cpu]",
)
@click.option("--separate", is_flag=True, help="Run each stage in a process of its own.")
@click.option(
    "--memory",
    metavar="SIZE",
    type=Parsed(read_size),
    help="What each of these processes may allocate, as 800M or 2G, embeddings included.  [default: no limit]",
)
@click.option("--name", "new_name", help="The name of the new model.  [default: NAME-N-stages]")
@click.option("--force", is_flag=True, help="Replace a model of the same name.")
@output_options()
@click.pass_obj
def split(
    context: Context,
    output: Output,
    name: str,
    stages: int,
    devices: str | None,
    separate: bool,
    memory: int | None,
    new_name: str | None,
    force: bool,
) -> None:
    """Cut the model NAME, which has native graphs, into stages, as a new model.

    A stage is a block of layers: the first also has the embeddings, the last the head. They are cut so that the slowest
    computes as little as possible. Of a translation model the first stage is the encoder, and the decoder is cut into
    the others. Each keeps the keys and values of its layers on its own device. A job that names the new model gets the
    same results as from NAME, token for token.

    Use it for a model that does not fit into the memory of one device or process. On one machine without a GPU it makes
    nothing faster.
    """
    from jobs.cli.render.layout import print_page
    from worker.model_tools.split.split import SplitRequest, split_model

    request = SplitRequest(
        model=name,
        stages=stages,
        devices=tuple(devices.split(",")) if devices else (),
        name=new_name,
        separate=separate,
        memory_limit=memory,
        force=force,
    )
    made = split_model(request, context.settings.models_dir)
    output.record(dataclasses.asdict(made), lambda: print_page(describe_split(made)))
    if output.is_table:
        print_message(f"Next: kvjobs models verify {made.name} --against {made.model}")


def describe_split(made: "SplitModel") -> Iterator[str]:
    """The lines of the page about a model that was split."""
    yield f"Model {made.name}, split in {duration(made.seconds)}"
    yield f"  folder     {made.path}, {size(made.num_bytes)}"
    yield f"  model      {made.model}, in {counted(len(made.stages), 'stage')}" + (
        ", each in a process of its own" if made.separate else ""
    )
    if made.memory_limit is not None:
        yield f"  memory     at most {size(made.memory_limit)} for each process"
    yield from stage_lines(made.stages)


def stage_lines(stages: "tuple[StageDescription, ...]") -> Iterator[str]:
    """Two lines for each stage of a model, and the bytes that it sends."""
    for stage in stages:
        parts, cost = ", ".join(stage.parts), percent(stage.cost)
        cached = f", keys and values {size(stage.cache_bytes)} a token" if stage.cache_bytes else ""
        yield f"  stage {stage.number}    {stage.device}: {parts}; {cost} of the computation"
        yield f"             weights {size(stage.weights_bytes)}{cached}"
    for stage in stages[:-1]:
        yield f"  sends      {size(stage.sent_bytes)} a token, from stage {stage.number} to the next"
