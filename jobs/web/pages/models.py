"""/models: every model that is installed here, what it is, how it was verified, what its cache saves, and what it was
used for."""

import shlex
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter

from jobs.formatting import counted, duration, percent
from jobs.store.cache_reports import CacheReportRow, newest_cache_reports
from jobs.store.report.model_usage import ModelUsage, model_usage
from jobs.store.verifications import Verification, newest_verifications, standing
from jobs.visible_text import visible
from jobs.web.charts import Chart, Series
from jobs.web.measured_cache import measured_caches, newest_of
from jobs.web.rendering import add_page
from jobs.web.store_access import Reading, SettingsOfApp
from jobs.worker_port import InstalledModel, worker_port

router = APIRouter()


def models(connection: Reading, settings: SettingsOfApp) -> dict[str, Any]:
    installed = worker_port().installed_models(settings.models_dir)
    usage = model_usage(connection)
    verified = newest_verifications(connection)
    by_name = {one.model: one for one in usage}
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
        "elsewhere": [one for one in usage if one.model not in names],  # jobs name them, and this machine has them not
        "models_dir": str(settings.models_dir),
        "cost": cost_chart(usage),
        "caches": caches,
        "cache_command": shlex.join(("kvjobs", "bench", "cache", "--model", *sorted(names)[:1])) if names else None,
    }


def cost_chart(usage: Sequence[ModelUsage]) -> Chart:
    """Seconds of model calls by model."""
    timed = [one for one in usage if one.seconds]
    total = sum(one.seconds for one in timed)
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
        x=[visible(one.model) for one in timed],
        series=[Series("model calls", [round(one.seconds, 3) for one in timed], "--series-1")],
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
    used = sum(one.jobs for one in usage)
    sentence = f"{counted(len(installed), 'model')} on this machine, {counted(used, 'job')} so far."
    return f"{sentence} {counted(broken, 'model')} with a problem." if broken else sentence


add_page(router, "/models", "models.html", models)
