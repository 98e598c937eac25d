"""/models: every model that is installed here, what it is, how it was verified, what its KV cache saves (the newest
measurements by `kvjobs bench cache`, with a chart of their steps), and what it was used for."""

import itertools
import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fastapi import APIRouter

from jobs.store.model_reports import CacheReportRow, Verification, newest_cache_reports, newest_verifications, standing
from jobs.store.report.model_usage import ModelUsage, model_usage
from jobs.text.formatting import counted, duration, figure, percent, visible
from jobs.web.charts import Chart, Series
from jobs.web.parameters import Reading, SettingsOfApp
from jobs.web.rendering import add_page
from jobs.worker_port import InstalledModel, worker_port

router = APIRouter()


def models(connection: Reading, settings: SettingsOfApp) -> dict[str, Any]:
    installed = worker_port().installed_models(settings.models_dir)
    usage = model_usage(connection)
    verified = newest_verifications(connection)
    by_name = {row.model: row for row in usage}
    caches = measured_caches(newest_cache_reports(connection), installed, _is_current)
    names = {model.name for model in installed}
    return {
        "sentence": _sentence(installed, usage),
        "models": [
            {
                "model": model,
                "usage": by_name.get(model.name),
                "verification": _verification(model, verified),
                "cache": newest_of(model.name, caches),
                "verify_command": shlex.join(("kvjobs", "models", "verify", model.name)),
            }
            for model in installed
        ],
        "elsewhere": [row for row in usage if row.model not in names],  # jobs name them; this machine lacks them
        "models_dir": str(settings.models_dir),
        "cost": cost_chart(usage),
        "caches": caches,
        "cache_command": shlex.join(("kvjobs", "bench", "cache", "--model", *sorted(names)[:1])) if names else None,
    }


def cost_chart(usage: Sequence[ModelUsage]) -> Chart:
    """Seconds of model calls by model."""
    timed = [row for row in usage if row.seconds]
    total = sum(row.seconds for row in timed)
    if not timed:
        sentence = "No model call was timed yet."
    else:
        share = percent(timed[0].seconds / total)
        sentence = f"{duration(total)} of model calls; {visible(timed[0].model)} took {share} of them."
    return Chart(
        id="cost",
        title="Seconds of model calls",
        sentence=sentence,
        shape="bar",
        x_name="model",
        y_name="s",
        x=[visible(row.model) for row in timed],
        series=[Series("model calls", [round(row.seconds, 3) for row in timed], "--series-1")],
    )


def _verification(model: InstalledModel, stored: Sequence[Verification]) -> dict[str, Any] | None:
    def stamp() -> str:
        return worker_port().model_stamp(model.path)

    names = (model.name, str(model.path))
    found = standing(stored, names, stamp, lambda: worker_port().model_revision(model.path, stamp()))
    return found.as_row() if found else None


def _is_current(model: InstalledModel, report: CacheReportRow) -> bool:
    """Whether a model has the files that were measured; they are read only where they were changed or copied since."""
    stamp = worker_port().model_stamp(model.path)
    return report.files_stamp == stamp or report.model_revision == worker_port().model_revision(model.path, stamp)


def _sentence(installed: Sequence[InstalledModel], usage: Sequence[ModelUsage]) -> str:
    broken = sum(model.problem is not None for model in installed)
    used = sum(row.jobs for row in usage)
    sentence = f"{counted(len(installed), 'model')} on this machine, {counted(used, 'job')} so far."
    return f"{sentence} {counted(broken, 'model')} with a problem." if broken else sentence


add_page(router, "/models", "models.html", models)


MOST_POINTS = 150
WITH, WITHOUT = "--series-1", "--series-2"

IsCurrent = Callable[[InstalledModel, CacheReportRow], bool]  # whether the model has the files that were measured


def measured_caches(
    reports: Iterable[CacheReportRow], installed: Sequence[InstalledModel], is_current: IsCurrent
) -> list[dict[str, Any]]:
    """For each model that was measured, and for each number of stages: its name on this machine (None: it is not here),
    its measurements from the shortest to the longest, and the chart of the longest. Models that are here come first."""
    found = []
    for (name, stages), group in itertools.groupby(reports, key=lambda report: (report.model, report.stages)):
        rows = list(group)
        longest = rows[-1]
        model = next((model for model in installed if name in (model.name, str(model.path))), None)
        found.append(
            {
                "model": name,
                "stages": stages,
                "installed_as": model.name if model else None,
                "is_current": is_current(model, longest) if model else None,
                "work": _work(longest),
                "reports": [report.as_row() for report in rows],
                "chart": steps_chart(longest),
            }
        )
    return sorted(found, key=lambda cache: cache["installed_as"] is None)


def newest_of(name: str, caches: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """What the cache of an installed model saves with the longest texts: of the whole model before a split one. None:
    it was not measured."""
    cache = next((cache for cache in caches if cache["installed_as"] == name), None)
    if cache is None:
        return None
    longest = cache["reports"][-1]
    return {name: longest[name] for name in ("id", "ratio", "target_tokens")} | {"is_current": cache["is_current"]}


def steps_chart(report: CacheReportRow) -> Chart:
    """Milliseconds of each step with the cache and without it; of many steps, some neighbours together."""
    width = math.ceil(len(report.steps) / MOST_POINTS) or 1
    points = [report.steps[at : at + width] for at in range(0, len(report.steps), width)]
    columns = [[_mean_ms(point, which) for point in points] for which in (0, 1)]
    return Chart(
        id=f"cache-{report.id}-steps",
        title=f"Milliseconds of each step, {counted(report.target_tokens, 'token')} out",
        sentence=_steps_sentence(report),
        shape="line",
        x_name="number of the step" if width == 1 else f"number of the step, mean of {width}",
        y_name="ms",
        x=[1 + at * width for at in range(len(points))],
        series=[Series("with the cache", columns[0], WITH), Series("without", columns[1], WITHOUT)],
    )


def _work(report: CacheReportRow) -> str:
    """What was decoded, in words."""
    noun = "segment" if report.kind == "translation" else "prompt"
    beams = "" if report.num_beams == 1 else f", {counted(report.num_beams, 'beam')}"
    times = "once" if report.repeats == 1 else f"median of {report.repeats}"
    return (
        f"{counted(report.num_sequences, noun)} of {counted(report.source_tokens, 'token')} in batches of "
        f"{report.batch_size}{beams}; {times}"
    )


def _steps_sentence(report: CacheReportRow) -> str:
    return (
        f"With the cache a step takes {_ms(report.cached_early_s)} at the start and {_ms(report.cached_late_s)} at the "
        f"end; without it {_ms(report.uncached_early_s)} and {_ms(report.uncached_late_s)}."
    )


def _ms(seconds: float) -> str:
    return f"{figure(1000 * seconds)} ms"


def _mean_ms(steps: Sequence[tuple[float, float]], which: int) -> float:
    return round(1000 * sum(step[which] for step in steps) / len(steps), 4)
