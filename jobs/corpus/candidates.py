"""
A query and its candidates: the document of a reranking job.

    {"query": "...", "candidates": [{"id": "d1", "text": "...", "score": 12.3}, ...]}
    {"query": "...", "candidates": ["...", ...]}               ids are their numbers in the list: 1, 2, ...

Candidates are in the order of the first stage; `score` is the score that it gave, if any. An id is a text (an integer
becomes its digits) and unique in the list. An empty query and an empty text are accepted: the engine keeps the order
of such candidates and says why. Other fields of a candidate are dropped.

Knows: what a line has to contain. Does not know: files, tables, models.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from jobs.documents import MAX_ID_BYTES, Reject, kind_of, quoted
from jobs.text.json_numbers import digits, whole_number


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text that may answer the query."""

    id: str
    text: str | None  # None: the run names it, and the corpus does not have it
    score: float | None  # of the first stage


def check_candidates(query: object, candidates: object) -> str | tuple[Reject, str]:
    """The payload that these values of a line make, or why they make none: a code and a reason."""
    if type(query) is not str:
        what = "there is no query" if query is None else f"the query is {kind_of(query)}, not a string"
        return Reject.NO_QUERY, f'{what}; write {{"query": "...", "candidates": [...]}}'
    if candidates is None:
        reason = 'the query has no candidates; write "candidates": [{"id": ..., "text": ...}, ...]'
        return Reject.NO_CANDIDATES, reason
    if type(candidates) is not list:
        reason = f'the candidates are {kind_of(candidates)}, not a list; write [{{"id": ..., "text": ...}}, ...]'
        return Reject.NO_CANDIDATES, reason
    if not candidates:
        return Reject.NO_CANDIDATES, "the list of candidates is empty; fill it in or take the line out"
    checked = []
    for number, values in enumerate(candidates, 1):
        candidate = _check({"id": number, "text": values} if type(values) is str else values)
        if isinstance(candidate, str):
            return Reject.BAD_CANDIDATE, f"candidate {number} of {len(candidates)}: {candidate}"
        checked.append(candidate)
    return check_ids(checked) or payload(query, checked)


def check_ids(candidates: Sequence[Candidate]) -> tuple[Reject, str] | None:
    """A code and a reason where two candidates have the same id."""
    seen: set[str] = set()
    for candidate in candidates:
        if candidate.id in seen:
            what = f"two candidates have the id {quoted(candidate.id)}"
            reason = f"{what}; leave one of them out, or give each an id of its own"
            return Reject.DUPLICATE_CANDIDATE, reason
        seen.add(candidate.id)
    return None


def payload(query: str, candidates: Sequence[Candidate]) -> str:
    """The payload, as JSON."""
    rows = [
        {"id": candidate.id, "text": candidate.text} | ({} if candidate.score is None else {"score": candidate.score})
        for candidate in candidates
    ]
    return orjson.dumps({"query": query, "candidates": rows}).decode()


def read_payload(text: str) -> tuple[str, list[Candidate]]:
    """The query and the candidates of a payload, in the order of the first stage."""
    values = orjson.loads(text)
    return values["query"], [
        Candidate(candidate["id"], candidate["text"], candidate.get("score")) for candidate in values["candidates"]
    ]


def _check(values: object) -> Candidate | str:
    """A candidate, or what is wrong with it."""
    if type(values) is not dict:
        return f'it is {kind_of(values)}, not an object; write {{"id": ..., "text": ...}}, or a text'
    candidate_id = values.get("id")
    candidate_id = whole_number(candidate_id) or candidate_id
    if type(candidate_id) is not str or not candidate_id:
        what = "it has no id" if candidate_id in (None, "") else f"its id is {kind_of(candidate_id)}"
        return f"{what}; write a string or a whole number"
    if len(candidate_id.encode()) > MAX_ID_BYTES:
        return f"its id {quoted(candidate_id)} is longer than {MAX_ID_BYTES} bytes; write a shorter one"
    text, score = values.get("text"), values.get("score")
    if type(score) is orjson.Fragment:
        score = float(digits(score))
    if type(text) is not str:
        what = "has no text" if text is None else f"has a text that is {kind_of(text)}"
        return f"{quoted(candidate_id)} {what}; write a string"
    if score is None:
        return Candidate(candidate_id, text, None)
    if isinstance(score, bool) or not isinstance(score, int | float):
        return f"the score of {quoted(candidate_id)} is {kind_of(score)}; write a number, or none"
    if not _is_finite(score):
        return f"the score of {quoted(candidate_id)} is too large or not a number; write a finite one, or none"
    return Candidate(candidate_id, text, float(score))


def _is_finite(score: float) -> bool:
    try:
        return math.isfinite(score)
    except OverflowError:  # an integer too large for a double
        return False
