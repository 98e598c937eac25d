"""`kvjobs bench cache`: how much the KV cache saves."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import chain, cycle, islice
from typing import TYPE_CHECKING, Any, TypeVar

import click

from jobs.cli.context import Context
from jobs.cli.number_types import number_type
from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Column, Output, output_options
from jobs.errors import SpecError
from jobs.number_ranges import Whole
from jobs.text.formatting import counted, figure
from worker.cli.bench.stored_reports import store_reports
from worker.models.contents.present_files import kind_of
from worker.models.contents.required_files import check_files
from worker.models.model_folder import read_manifest
from worker.models.model_kind import ModelKind
from worker.models.registry import DEFAULT_MODEL, find_model

if TYPE_CHECKING:
    from worker.engine.tasks.cache_report import CacheReport, ContinuationWork, TranslationWork
    from worker.models.model_folder import ModelFolder
    from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer

Command = TypeVar("Command", bound=Callable[..., Any])

FIELDS = (
    *("target_tokens", "ratio", "is_equal", "num_different", "num_segments", "source_tokens", "batch_size"),
    *("num_beams", "repeats", "on", "off", "on_growth", "off_growth"),
    *("kv_bytes", "buffer_allocations", "buffer_reuses", "report_id", "stages"),
)
COLUMNS = (
    Column("target_tokens", "TOKENS OUT", right=True),
    Column("ratio", "FASTER BY", lambda ratio: f"{figure(ratio)} x", right=True),
    Column("on", "TOKENS/S WITH", lambda measured: figure(measured["tokens_per_second"]), right=True, rank=1),
    Column("off", "TOKENS/S WITHOUT", lambda measured: figure(measured["tokens_per_second"]), right=True, rank=2),
    Column("on", "MS/STEP WITH", lambda measured: figure(1000 * measured["seconds_per_step"]), right=True, rank=5),
    Column("off", "MS/STEP WITHOUT", lambda measured: figure(1000 * measured["seconds_per_step"]), right=True, rank=6),
    Column("on_growth", "GROWTH WITH", figure, right=True, rank=3),
    Column("off_growth", "GROWTH WITHOUT", figure, right=True, rank=4),
    Column("is_equal", "SAME TOKENS"),
)


class Lengths(click.ParamType[tuple[int, ...]]):
    """Whole numbers separated by commas: 5,50."""

    name = "lengths"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        try:
            return tuple(Whole(1).parse(part) for part in value.split(","))
        except SpecError as error:
            self.fail(f"{error}; write a list such as 5,50", param, ctx)


def _number(name: str, least: int, default: int, text: str) -> Callable[[Command], Command]:
    kind = number_type(Whole(least))
    return click.option(name, metavar="N", type=kind, default=default, show_default=True, help=text)


@click.command()
@click.option(
    "--model", metavar="NAME", default=DEFAULT_MODEL, show_default=True, help="A model's name, or its folder."
)
@click.option(
    "--tokens",
    "lengths",
    type=Lengths(),
    metavar="N,...",
    help="The length of each translation or continuation; forced, so that both runs take the same number of steps.  "
    "[default: 5,50; of a language model 50,200]",
)
@_number("--source-tokens", 2, 30, "The length of each segment or prompt.")
@_number("--batch-size", 1, 32, "Segments or prompts in one model call.")
@click.option(
    "--segments",
    metavar="N",
    type=number_type(Whole(1)),
    help="Segments to translate, or prompts to continue.  [default: one batch]",
)
@_number("--beam-size", 1, 1, "Number of beams; 1 is greedy search.")
@_number("--repeats", 1, 3, "Measure so many times, and take the median.")
@output_options()
@click.pass_obj
def cache(
    context: Context,
    /,
    output: Output,
    model: str,
    lengths: tuple[int, ...] | None,
    source_tokens: int,
    batch_size: int,
    segments: int | None,
    beam_size: int,
    repeats: int,
) -> int:
    """Translate the same segments, or continue the same prompts, with and without the KV cache.

    Both run in turns, in one thread as in a lane; the medians are shown. GROWTH is the time of a late step (the mean of
    the last 5) divided by that of an early one (steps 2 to 6): about 1 with the cache. Both must give the same tokens:
    exit code 1 if they do not.

    The measurements, with the time of each step, are stored in the database; `kvjobs query --saved cache-reports` and
    the dashboard show them.
    """
    from worker.engine.tasks import cache_report

    folder = find_model(model, context.settings.models_dir)
    check_files(folder)
    before = folder.stamp(), folder.revision()
    kind, stages = kind_of(folder), _stages_of(folder)
    if kind is ModelKind.CROSS_ENCODER:
        raise SpecError(f"{folder.name} is {kind.noun}, which has no KV cache to measure: name another model")
    work: TranslationWork | ContinuationWork
    if kind is ModelKind.TRANSLATION:
        noun, done, lengths = "segment", "translated", lengths or (5, 50)
        work = _translation(folder, source_tokens, segments or batch_size, beam_size, batch_size)
    else:
        noun, done, lengths = "prompt", "continued", lengths or (50, 200)
        if beam_size > 1:
            raise SpecError(f"{folder.name} is {ModelKind.CAUSAL.noun}, which has no beams: leave --beam-size out")
        work, batch_size = _continuation(folder, source_tokens, segments or batch_size), segments or batch_size
    reports, name = [], f"{folder.name}, in {counted(stages, 'stage')}" if stages else folder.name
    for target_tokens in lengths:
        print_message(
            f"{name}: {counted(work.num_sequences, noun)}, {source_tokens} tokens in, {target_tokens} out ..."
        )
        reports.append(
            cache_report.measure_cache(
                work, target_tokens=target_tokens, num_beams=beam_size, batch_size=batch_size, repeats=repeats
            )
        )
    # Before they are printed: whoever reads the output may close it early (`| head`).
    numbers = store_reports(context, folder, before, reports, kind=kind, stages=stages, source_tokens=source_tokens)
    found = zip(reports, numbers, strict=True)
    output.rows([_row(report, source_tokens, number, stages) for report, number in found], COLUMNS, FIELDS)
    different = sum(report.num_different for report in reports)
    if different:
        print_message(
            f"Error: {counted(different, noun)} {done} differently with and without the cache; "
            f"this is a bug: report it with the output of kvjobs models inspect {folder.name}"
        )
        return 1
    print_message("The tokens are the same with and without the cache.")
    return 0


def _translation(
    folder: "ModelFolder", source_tokens: int, count: int, beam_size: int, batch_size: int
) -> "TranslationWork":
    """The work of translating `count` segments."""
    from worker.engine.seq2seq.open import open_seq2seq_model
    from worker.engine.tasks.cache_report import TranslationWork
    from worker.text.translation.translation_tokenizer import open_translation_tokenizer

    opened = open_seq2seq_model(folder.path)
    tokenizer = open_translation_tokenizer(folder.path).for_source("en")
    segments = list(islice(_segments(tokenizer, source_tokens), count))
    return TranslationWork(opened, segments, num_beams=beam_size, batch_size=batch_size)


def _continuation(folder: "ModelFolder", source_tokens: int, count: int) -> "ContinuationWork":
    """The work of continuing `count` prompts, cut from weather bulletins."""
    from worker.engine.causal.open import open_causal_model, open_causal_tokenizer
    from worker.engine.tasks.cache_report import ContinuationWork
    from worker.model_tools.sample import bulletins

    model = open_causal_model(folder.path)
    tokenizer = open_causal_tokenizer(folder.path, model)
    texts = cycle(bulletins(20))
    ids = chain.from_iterable(tokenizer.encode(text).ids for text in texts)
    return ContinuationWork(model, [list(islice(ids, source_tokens)) for _ in range(count)])


def _stages_of(folder: "ModelFolder") -> int | None:
    """The number of stages of a split model; None for a model in one piece."""
    manifest = read_manifest(folder)
    return None if manifest is None or manifest.split is None else len(manifest.split.stages)


def _row(report: "CacheReport", source_tokens: int, report_id: int | None, stages: int | None) -> dict[str, Any]:
    return asdict(report) | {
        "ratio": report.ratio,
        "is_equal": report.is_equal,
        "source_tokens": source_tokens,
        "on_growth": report.on.growth,
        "off_growth": report.off.growth,
        "report_id": report_id,
        "stages": stages,
    }


def _segments(tokenizer: "Seq2SeqTokenizer", num_tokens: int) -> Iterator[list[int]]:
    """Segments of exactly `num_tokens` tokens, cut from weather bulletins like the bundled model's."""
    from worker.model_tools.sample import bulletins

    language = min(tokenizer.languages, default=None)
    texts = cycle(bulletins(20))
    head = tokenizer.encode("", language)  # the language label, if any, and the end of the sentence
    pieces = chain.from_iterable(tokenizer.encode(text, language)[len(head) - 1 : -1] for text in texts)
    while True:
        yield [*head[:-1], *islice(pieces, num_tokens - len(head)), head[-1]]
