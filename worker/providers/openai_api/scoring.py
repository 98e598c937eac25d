"""Scoring a document by a server: the sums of its tokens' log-probabilities, as `worker.engine.tasks.scoring` makes
them."""

import math

from jobs.outcome import Failed, Flag, Outcome, Score, TokenScore
from jobs.tasks.score import Bos, ScoreOptions, Window
from worker.engine.tasks.document_assembly import merge_flags
from worker.providers.openai_api.prompt_scores import PromptScores


def why_not_score(options: ScoreOptions) -> str | None:
    """Why a server cannot do a scoring job with these options, a sentence; None: it can."""
    if options.pairs:
        return "a server of language models cannot score pairs as a translation model does"
    for name, is_set in (
        ("bos", options.bos is not Bos.AUTO),
        ("window", options.window is not Window.STRIDE),
        ("max-length", options.max_length is not None),
        ("stride", options.stride is not None),
    ):
        if is_set:
            return f"the server decides itself how a text is read, so --{name} cannot be followed"
    return None


def score_of(text: str, found: PromptScores, *, keeps_tokens: bool) -> Outcome:
    """The score of a document: every token but a first one without anything before it."""
    scored = [(place, log_prob) for place, log_prob in zip(found.places, found.log_probs, strict=True)]
    known = [log_prob for _, log_prob in scored if log_prob is not None]
    if not all(map(math.isfinite, known)):
        return Failed("non-finite", "the server's log-probabilities are not finite (NaN or infinity)")
    flags = [Flag.UNSCORED_FIRST] if scored and scored[0][1] is None else []
    if not known:
        flags.append(Flag.UNSCORED)
    begin = next((place.start for place, log_prob in scored if log_prob is not None), None)
    if scored and scored[0][1] is not None:
        begin = 0
    covered = text.encode("utf-8", "surrogatepass")[begin:] if begin is not None else b""
    return Score(
        nll_sum=0.0 - math.fsum(known),
        num_tokens=len(known),
        num_words=len(covered.decode("utf-8", "replace").split()),
        num_bytes=len(covered),
        flags=merge_flags(flags),
        tokens=_token_scores(text, found) if keeps_tokens else (),
    )


def _token_scores(text: str, found: PromptScores) -> tuple[TokenScore, ...]:
    encoded = text.encode("utf-8", "surrogatepass")
    return tuple(
        TokenScore(encoded[place.start : place.stop].decode("utf-8", "replace"), place.start, place.stop, log_prob)
        for place, log_prob in zip(found.places, found.log_probs, strict=True)
    )
