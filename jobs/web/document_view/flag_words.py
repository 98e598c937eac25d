"""What each flag of a result means, in a sentence."""

from collections.abc import Mapping

from jobs.outcome import Flag

FLAG_WORDS: Mapping[str, str] = {
    Flag.SPLIT: "A sentence was longer than the model can read at once, so it was translated in pieces.",
    Flag.TRUNCATED: "The text was cut: a translation reached the length limit before its end, or only a part of the "
    "text was scored.",
    Flag.REPETITION: "The text repeats a sequence in a row, and its source does not; the model probably looped.",
    Flag.UNKNOWN_SOURCE: "The model's vocabulary lacks much of the source, as of another script; the translation is "
    "probably invented.",
    Flag.PASSED_THROUGH: "A sentence held no letter, so it was copied and not translated.",
    Flag.UNSCORED_FIRST: "The first token had nothing before it, so it has no log-probability.",
    Flag.UNSCORED: "No token could be scored; of a translation: its provider gives no log-probabilities.",
    Flag.KEPT_ORDER: "Some candidates could not be scored; they kept their rank.",
}
