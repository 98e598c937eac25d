"""Time a translation model on a corpus without the queue: `python -m bench.bare_engine bulletins.jsonl` prints the
seconds; with `--json` seconds and processor time.

As many lanes as a worker has, with the same batches; no translation memory.
"""

import argparse
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jobs.documents import estimate_tokens
from jobs.settings import read_settings
from jobs.store.queue.batches import MAX_DOCUMENTS, MAX_TOKENS, PlannedDocument, plan_batches
from jobs.submission.shards import SHARD_TOKENS
from jobs.system.process import available_cores
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from worker.engine.runtime.run_context import RunContext
from worker.model_tools.admission import admit
from worker.providers.local_engines import LocalEngines
from worker.providers.protocol import ProviderJob
from worker.warm_models import WarmModels


def main() -> None:
    """Print the seconds."""
    parser = argparse.ArgumentParser(description="A translation model on a corpus without the queue.")
    parser.add_argument("corpus", type=Path, help="JSON Lines with a text in each")
    parser.add_argument("--model", help="its folder; the demo model without it")
    parser.add_argument("--beam-size", type=int)
    parser.add_argument("--max-new-tokens", type=int)
    parser.add_argument("--lanes", type=int, default=available_cores())
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    texts = [json.loads(line)["text"] for line in arguments.corpus.read_text(encoding="utf-8").splitlines()]
    settings, _ = read_settings({})
    options = TranslateOptions(beam_size=arguments.beam_size, max_new_tokens=arguments.max_new_tokens, reuse=False)
    spec = admit(Task.TRANSLATE, arguments.model, settings.models_dir, options)
    job = ProviderJob(spec, spec.providers.choices[0])
    models = WarmModels(settings.models_dir, threads=max(1, available_cores() // arguments.lanes))
    lanes = [LocalEngines(models) for _ in range(arguments.lanes)]

    def work(engines: LocalEngines, shards: Iterator[list[PlannedDocument]]) -> None:
        for shard in shards:
            times = engines.batches_at_once(job)
            for batch in plan_batches(shard, times * MAX_TOKENS, times * MAX_DOCUMENTS):
                engines.process(job, batch, RunContext())

    for engines in lanes:  # warm up
        work(engines, iter(_shards(texts[:1])))
    shards = iter(_shards(texts))  # each lane takes the next one
    started, cpu_started = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(len(lanes)) as threads:
        for _ in threads.map(lambda engines: work(engines, shards), lanes):  # raises what a lane raised
            pass
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
    print(json.dumps({"seconds": seconds, "cpu_s": cpu_s}) if arguments.json else seconds)


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
