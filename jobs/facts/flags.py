"""What the flags of results mean, and how many results of a job have which."""

from collections.abc import Mapping

from jobs.outcome import Flag
from jobs.store.report.job_summary import JobSummary
from jobs.text.formatting import count

FLAG_WORDS: Mapping[str, str] = {
    Flag.SPLIT: "A sentence was longer than the model can read at once, so it was translated in pieces.",
    Flag.TRUNCATED: "The text was cut: a translation reached the length limit before its end, or only a part of the "
    "text was scored.",
    Flag.REPETITION: "The text repeats a sequence in a row, and its source does not; the model probably looped.",
    Flag.UNKNOWN_SOURCE: "The model's vocabulary lacks much of the source, as of another script; the translation is "
    "probably invented.",
    Flag.IMPORTED: "A sentence has the translation that somebody imported (kvjobs memory import).",
    Flag.PASSED_THROUGH: "A sentence held no letter, so it was copied and not translated.",
    Flag.UNSCORED_FIRST: "The first token had nothing before it, so it has no log-probability.",
    Flag.UNSCORED: "No token could be scored; of a translation: its provider gives no log-probabilities.",
    Flag.MARKUP_MOVED: "The place of a tag or placeholder in the translation is a guess: no alignment says it.",
    Flag.PLACEHOLDER_LOST: "A placeholder or an address of the source is not in the translation as often.",
    Flag.NUMBER_CHANGED: "A number of the source is not in the translation.",
    Flag.TOO_LONG: "No translation that was found has as few characters as asked for; this is the shortest.",
    Flag.TERM_MISSING: "A sentence has a term of the glossary, and its translation lacks the term's.",
    Flag.KEPT_ORDER: "Some candidates could not be scored; they kept their rank.",
}
# A model gives this flag to every document, or to none: nothing to look at when a job has ended.
_OF_THE_MODEL = (Flag.UNSCORED_FIRST,)


def flags_sentence(flags: Mapping[str, int]) -> str:
    """`12 number-changed, 3 placeholder-lost`; empty where no result has a flag."""
    return ", ".join(f"{count(number)} {flag}" for flag, number in flags.items())


def flagged_command(job: JobSummary) -> str:
    """The command that writes the documents with the first flag of a job that has some."""
    return f"kvjobs export {job.job_id} --where \"flags has '{next(iter(job.flags))}'\""


def flags_at_the_end(job: JobSummary) -> str:
    """What the last message of a job says of its flags, in two lines, each behind a line break; empty where there is
    nothing to look at."""
    if not job.flags.keys() - set(_OF_THE_MODEL):
        return ""
    return f"\nFlags: {flags_sentence(job.flags)}\nTo see them: {flagged_command(job)}"
