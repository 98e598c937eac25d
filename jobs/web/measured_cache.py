"""What the KV cache saves: the newest measurements of each model by `kvjobs bench cache`, a chart of their steps."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jobs.formatting import counted, duration, figure
from jobs.store.cache_reports import CacheReportRow
from jobs.web.charts import Chart, Series
from jobs.worker_port import InstalledModel

MOST_POINTS = 150
WITH, WITHOUT = "--series-1", "--series-2"

IsCurrent = Callable[[InstalledModel, CacheReportRow], bool]  # whether the model has the files that were measured


def measured_caches(
    reports: Iterable[CacheReportRow], installed: Sequence[InstalledModel], is_current: IsCurrent
) -> list[dict[str, Any]]:
    """For each model that was measured, and for each number of stages: its name on this machine (None: it is not here),
    its measurements from the shortest to the longest, and the chart of the longest. Models that are here come first."""
    found = []
    for (name, stages), group in itertools.groupby(reports, key=lambda one: (one.model, one.stages)):
        rows = list(group)
        longest = rows[-1]
        model = next((one for one in installed if name in (one.name, str(one.path))), None)
        found.append(
            {
                "model": name,
                "stages": stages,
                "installed_as": model.name if model else None,
                "is_current": is_current(model, longest) if model else None,
                "work": _work(longest),
                "reports": [one.as_row() for one in rows],
                "chart": steps_chart(longest),
            }
        )
    return sorted(found, key=lambda one: one["installed_as"] is None)


def newest_of(name: str, caches: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """What the cache of an installed model saves with the longest texts: of the whole model before a split one. None:
    it was not measured."""
    one = next((one for one in caches if one["installed_as"] == name), None)
    if one is None:
        return None
    longest = one["reports"][-1]
    return {name: longest[name] for name in ("id", "ratio", "target_tokens")} | {"is_current": one["is_current"]}


def steps_chart(report: CacheReportRow) -> Chart:
    """Milliseconds of each step with the cache and without it; of many steps, some neighbours together."""
    width = math.ceil(len(report.steps) / MOST_POINTS) or 1
    points = [report.steps[at : at + width] for at in range(0, len(report.steps), width)]
    columns = [[_mean_ms(point, which) for point in points] for which in (0, 1)]
    return Chart(
        id=f"cache-{report.id}-steps",
        title=f"Milliseconds of each step, {counted(report.target_tokens, 'token')} out",
        sentence=_sentence(report),
        shape="line",
        x_name="number of the step" if width == 1 else f"number of the step, mean of {width}",
        y_name="ms",
        x=[1 + at * width for at in range(len(points))],
        series=[Series("with the cache", columns[0], WITH), Series("without", columns[1], WITHOUT)],
    )


def precise(seconds: float) -> str:
    """Three digits below a minute: 0.0206 s, 1.69 s, 1 min 05 s."""
    return f"{figure(seconds)} s" if seconds < 59.95 else duration(seconds)


def _work(report: CacheReportRow) -> str:
    """What was decoded, in words."""
    noun = "segment" if report.kind == "translation" else "prompt"
    beams = "" if report.num_beams == 1 else f", {counted(report.num_beams, 'beam')}"
    times = "once" if report.repeats == 1 else f"median of {report.repeats}"
    return (
        f"{counted(report.num_sequences, noun)} of {counted(report.source_tokens, 'token')} in batches of "
        f"{report.batch_size}{beams}; {times}"
    )


def _sentence(report: CacheReportRow) -> str:
    return (
        f"With the cache a step takes {_ms(report.cached_early_s)} at the start and {_ms(report.cached_late_s)} at the "
        f"end; without it {_ms(report.uncached_early_s)} and {_ms(report.uncached_late_s)}."
    )


def _ms(seconds: float) -> str:
    return f"{figure(1000 * seconds)} ms"


def _mean_ms(steps: Sequence[tuple[float, float]], which: int) -> float:
    return round(1000 * sum(step[which] for step in steps) / len(steps), 4)
