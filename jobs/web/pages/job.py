"""/jobs/N: one job: its counts, its commands, where its seconds went, why its shards wait."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy import Connection

from jobs.advice.next_command import next_steps, stored_submit
from jobs.advice.waiting_reasons import Circumstances, who_has_it, why_job_waits, why_shard_waits
from jobs.buckets import BucketMeasure
from jobs.choices import By
from jobs.control.actions import actions_of
from jobs.corpus.corpus import STREAMS
from jobs.facts.flags import FLAG_WORDS
from jobs.facts.providers import answered_sentence, change_words, mixed_models
from jobs.facts.webhooks import webhook_rows
from jobs.store.openai_batches import batch_of_job
from jobs.store.queue.waiting import jobs_ahead
from jobs.store.report.action_list import find_action
from jobs.store.report.failures import Failure, failures
from jobs.store.report.job_providers import providers_of
from jobs.store.report.job_summary import LARGEST_ID, JobSummary, find_chain
from jobs.store.report.live_job import LiveJob, find_live_job, live_jobs
from jobs.store.report.shards import (
    ShardSummary,
    list_shards,
    next_shard_id,
    recent_events,
    shard_events,
)
from jobs.store.report.timings.histograms import histogram
from jobs.store.report.timings.minutes import intervals_of_job
from jobs.store.report.timings.recent_batches import MOST_BATCHES, recent_batches
from jobs.store.report.timings.steps import calls_by_past_length, calls_by_step, summarize_steps
from jobs.store.report.waiting_work import service_of
from jobs.store.schema.states import ShardState
from jobs.store.webhooks import list_deliveries
from jobs.submit_command import submit_command
from jobs.tasks.shared_options import Timing
from jobs.web.job_page import bars, decoder, header, lanes, latency, perplexity, seconds, speed
from jobs.web.live import stamp_of
from jobs.web.pages.documents import chain_forms, forms_of, statuses_of
from jobs.web.pages.files import first_files
from jobs.web.parameters import JobId, Reading, SettingsOfApp
from jobs.web.rendering import add_page
from jobs.web.unserved_work import unserved_work

SHARDS_SHOWN = 10  # on the page of the job; all are on a page of their own
SHARDS_A_PAGE = 50
CHANGES_SHOWN = 20
LARGEST_PERPLEXITY = 1e12
SECTIONS = (  # in the order of the page: id, title
    ("chain", "Chain"),
    ("files", "Files"),
    ("failures", "Failures"),
    ("flags", "Flags"),
    ("providers", "Providers"),
    ("speed", "Speed"),
    ("seconds", "Where the seconds went"),
    ("decoder", "Decoder steps"),
    ("lanes", "Lanes"),
    ("latency", "Length against latency"),
    ("perplexity", "Perplexity"),
    ("shards", "Shards"),
    ("events", "Events"),
    ("webhooks", "Webhooks"),
)

router = APIRouter()


def job(
    connection: Reading,
    settings: SettingsOfApp,
    job_id: JobId,
    below: Annotated[float | None, Query(gt=0, le=LARGEST_PERPLEXITY)] = None,
    done: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None,
) -> dict[str, Any]:
    found = find_live_job(connection, str(job_id), settings.lease_s)
    stages = live_jobs(connection, find_chain(connection, found), settings.lease_s)
    forms, bad, batch = forms_of(found), failures(connection, found), batch_of_job(connection, job_id)
    shown = {
        "job": found,
        "actions": actions_of(found),
        "notice": find_action(connection, job_id, done) if done else None,  # the action after which this page is shown
        "stages": stages,
        "sentence": header.state_sentence(found),
        "time_left": header.time_left(found),
        "tiles": header.tiles(found),
        "facts": header.lines(found, batch.labels if batch else None),
        "commands": _commands(found, stages, bad),
        **_charts(connection, found),
        **_perplexity(connection, found, below),
        **_answers(connection, found),
        **first_files(connection, found),
        "failures": bad,
        "flags": [(flag, number, FLAG_WORDS.get(flag, "")) for flag, number in found.flags.items()],
        **_open_shards(connection, found, settings.lease_s),
        "events": recent_events(connection, job_id),
        "webhooks": webhook_rows(list_deliveries(connection, stages[0].job_id)),
        "download": {
            "forms": forms,
            "status": statuses_of(found),
            "of_chain": chain_forms(forms) if stages[1:] else {},
        },
        "unserved": unserved_work(connection, settings.lease_s),
        "stamp": stamp_of(connection, stages, settings.lease_s),
    }
    return shown | {"sections": [section for section in SECTIONS if _is_shown(section[0], shown)]}


def _is_shown(section: str, shown: Mapping[str, Any]) -> bool:
    """Whether a part of the page has something to show."""
    found: LiveJob = shown["job"]
    match section:
        case "chain":
            return len(shown["stages"]) > 1
        case "files":
            return "files" in shown
        case "failures" | "flags" | "events" | "webhooks":
            return bool(shown[section])
        case "providers":
            return shown["answers"] is not None
        case "shards":
            return bool(found.shards)
        case "seconds":
            has_none = json.loads(found.options).get("timing") == Timing.OFF  # it says so
            return bool(shown["phases"]) or not shown["seconds"].is_empty or (has_none and found.started_at is not None)
        case "decoder":
            return not all(shown[name].is_empty for name in ("steps", "past_lengths", "slots"))
        case "lanes":
            return bool(shown["timeline"].lanes)
    return not shown[section].is_empty


def shards(
    connection: Reading,
    settings: SettingsOfApp,
    job_id: JobId,
    state: ShardState = ShardState.READY,
    after: Annotated[int, Query(ge=0, le=LARGEST_ID)] = 0,
    shard: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None,
) -> dict[str, Any]:
    found = find_live_job(connection, str(job_id), settings.lease_s)
    around = _circumstances(connection, found, settings.lease_s)
    listed = list_shards(connection, job_id, state, after=after, limit=SHARDS_A_PAGE + 1)
    page = listed[:SHARDS_A_PAGE]
    return {
        "job": found,
        "state": state,
        "states": tuple(ShardState),
        "after": after,
        "next_after": page[-1].shard_id if len(listed) > SHARDS_A_PAGE else None,
        "why_all": why_job_waits(around),
        "lines": [{"shard": listed_shard, "why": _why(listed_shard, around)} for listed_shard in page],
        "shard": shard,
        "events": shard_events(connection, job_id, shard) if shard else [],
    }


def _commands(found: LiveJob, stages: Sequence[LiveJob], bad: Sequence[Failure]) -> dict[str, Any]:
    first, *later = map(stored_submit, stages)
    steps = next_steps(found, bad, stages)
    return {
        "next": steps[0].command,
        "steps": steps,
        "again": None if found.was_opened else submit_command(first, *later),
        "is_pipe": found.source in STREAMS,
    }


def _charts(connection: Connection, found: JobSummary) -> dict[str, Any]:
    """The charts of the page. Speed and seconds cover the whole job, lanes and latency only its newest batches."""
    job_id, task, options = found.job_id, found.task, json.loads(found.options)
    phases = summarize_steps(connection, job_id, By.PHASE)
    steps, lengths = calls_by_step(connection, job_id), calls_by_past_length(connection, job_id)
    batches = recent_batches(connection, job_id)
    is_whole_job = len(batches) < MOST_BATCHES
    every = batches if is_whole_job else []
    intervals = intervals_of_job(connection, job_id, bars.wide_enough_for(batches))
    return {
        "speed": speed.speed_chart(intervals, every, found),
        "seconds": seconds.seconds_over_time(intervals, every),
        "phases": seconds.phase_shares(phases),
        "phases_sentence": seconds.phases_sentence(phases, options.get("timing", Timing.STEPS), found.elapsed_s),
        "steps": decoder.step_chart(steps, task, options),
        "past_lengths": decoder.past_length_chart(lengths, task, options),
        "slots": decoder.slots_chart(steps, task, options),
        "timeline": lanes.timeline(batches, is_whole_job=is_whole_job, began_at=found.started_at),
        "latency": latency.latency_chart(batches),
    }


def _answers(connection: Connection, found: JobSummary) -> dict[str, Any]:
    """Who answered, for a job that has other providers than onnx alone."""
    if found.order.is_default:
        return {"answers": None, "mixed_models": None}
    answers = providers_of(connection, found, CHANGES_SHOWN)
    return {
        "answers": answers,
        "answered": answered_sentence(found, answers),
        "moments": [(change, change_words(change)) for change in reversed(answers.changes)],
        "mixed_models": mixed_models(found, answers),
    }


def _perplexity(connection: Connection, found: JobSummary, below: float | None) -> dict[str, Any]:
    buckets = histogram(connection, found.job_id, BucketMeasure.PERPLEXITY)
    threshold = perplexity.threshold_of(found.job_id, found.task, buckets, below)
    return {
        "perplexity": perplexity.perplexity_chart(buckets, found.task, threshold),
        "threshold": threshold,
        "threshold_data": perplexity.threshold_data(found.job_id, found.task, buckets),
    }


def _open_shards(connection: Connection, found: JobSummary, silence_s: float) -> dict[str, Any]:
    """The first of the shards that wait, and the first of the shards that are computed."""
    if not found.shards_open:
        return {"why_all": None, "leased": [], "waiting": []}
    around = _circumstances(connection, found, silence_s)
    named = {
        name: list_shards(connection, found.job_id, state, limit=SHARDS_SHOWN)
        for name, state in (("leased", ShardState.LEASED), ("waiting", ShardState.READY))
    }
    lines = {
        name: [{"shard": listed_shard, "why": _why(listed_shard, around)} for listed_shard in some]
        for name, some in named.items()
    }
    return {"why_all": why_job_waits(around), **lines}


def _circumstances(connection: Connection, found: JobSummary, silence_s: float) -> Circumstances:
    return Circumstances(
        job=found,
        service=service_of(connection, found.queue, found.model, silence_s),
        ahead=jobs_ahead(connection, found.job_id),
        next_shard=next_shard_id(connection, found.job_id),
    )


def _why(shard: ShardSummary, around: Circumstances) -> str:
    """Why it waits, or who has it; nothing for a shard that is closed."""
    match shard.state:
        case ShardState.READY:
            return why_shard_waits(shard, around)
        case ShardState.LEASED:
            return who_has_it(shard)
    return ""


add_page(router, "/jobs/{job_id:int}", "job.html", job)
add_page(router, "/jobs/{job_id:int}/shards", "job_shards.html", shards)
