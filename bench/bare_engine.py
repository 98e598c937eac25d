"""Time the demo model on a corpus without the queue: `python -m bench.bare_engine bulletins.jsonl` prints the seconds.

Uses the same batches as a worker's lane; no translation memory.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

from jobs.documents import estimate_tokens
from jobs.process import available_cores
from jobs.settings import read_settings
from jobs.spec import Task, TranslateOptions
from jobs.store.batches import PlannedDocument, plan_batches
from jobs.submission.shards import SHARD_TOKENS
from worker.engine.tasks.result_memory import NoMemory
from worker.model_tools.admission import admit
from worker.providers.local_engines import LocalEngines
from worker.warm_models import WarmModels


def main() -> None:
    """Print the seconds."""
    parser = argparse.ArgumentParser(description="The demo model on a corpus without the queue.")
    parser.add_argument("corpus", type=Path, help="JSON Lines with a text in each")
    arguments = parser.parse_args()
    texts = [json.loads(line)["text"] for line in arguments.corpus.read_text(encoding="utf-8").splitlines()]
    settings, _ = read_settings({})
    spec = admit(Task.TRANSLATE, None, settings.models_dir, replace(TranslateOptions(), reuse=False))
    engines = LocalEngines(WarmModels(settings.models_dir, threads=available_cores()))
    translator = engines.translator(spec)

    def translate(some: list[str]) -> None:
        translator.translate(some, spec.options, memory=NoMemory(), should_stop=lambda: False)

    translate(["Fog in the morning."])
    started = time.perf_counter()
    for shard in _shards(texts):
        for batch in plan_batches(shard):
            translate([document.text for document in batch])
    print(time.perf_counter() - started)


def _shards(texts: list[str]) -> list[list[PlannedDocument]]:
    shards: list[list[PlannedDocument]] = [[]]
    tokens = 0
    for position, text in enumerate(texts):
        estimated = estimate_tokens(text)
        if shards[-1] and tokens + estimated > SHARD_TOKENS:
            shards.append([])
            tokens = 0
        shards[-1].append(PlannedDocument(position, text, estimated))
        tokens += estimated
    return shards


if __name__ == "__main__":
    main()
