"""
Continuing prompts by a server.

    text   -> prompt, or the messages of a chat
    answer -> Generation, or declined: nothing but thoughts, or what no database can store

The same options need not give the same text again: that is the server's to keep. What a model says is left as it is; an
answer of no text is a continuation too, whose model ended it at once.

Knows: one document. Does not know: requests.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.answers import Unanswered
from jobs.corpus.messages import begins_answer, read_messages, with_system
from jobs.outcome import Finish, Flag, Generation, Outcome
from jobs.providers import Reason
from jobs.tasks.generate import GenerateOptions
from worker.engine.tasks.document_assembly import merge_flags
from worker.text.loops import has_loop


@dataclass(frozen=True, slots=True)
class ContinuedPrompt:
    """What a server returned for one prompt, read and checked by the provider."""

    text: str
    finish: Finish
    num_prompt_tokens: int
    num_completion_tokens: int
    log_probs: Sequence[float] | None = None  # of the new tokens, natural log; None: the server gave none
    has_thoughts: bool = False  # in a field of their own


def messages_of(text: str, options: GenerateOptions) -> list[dict[str, str]]:
    """The messages of a document, after the system's message, as servers take them."""
    messages = with_system(read_messages(text), options.system)
    return [{"role": message.role, "content": message.content} for message in messages]


def continues_answer(text: str) -> bool:
    """Whether a document ends with the beginning of an answer, which the model is to continue."""
    return begins_answer(read_messages(text))


def finish_of(options: GenerateOptions, *, reached_limit: bool, met_stop: bool | None) -> Finish:
    """Why a continuation ended. `met_stop`: whether at a stop text; None: the server does not tell. Then it counts as
    one where the job has any."""
    if reached_limit:
        return Finish.LENGTH
    return Finish.STOP if met_stop or (met_stop is None and options.stop) else Finish.EOS


def generation_of(answer: ContinuedPrompt) -> Outcome | Unanswered:
    """The outcome of a document."""
    if answer.has_thoughts and not answer.text.strip():
        why = f"the model thought for {answer.num_completion_tokens} tokens and gave no answer"
        return Unanswered(Reason.DECLINED, why)
    if "\0" in answer.text:
        return Unanswered(Reason.DECLINED, "its continuation holds a NUL character, which PostgreSQL cannot store")
    flags = [Flag.TRUNCATED] if answer.finish is Finish.LENGTH else []
    if answer.log_probs is None:
        flags.append(Flag.UNSCORED)
    if has_loop(answer.text):
        flags.append(Flag.REPETITION)
    return Generation(
        text=answer.text,
        log_prob=None if answer.log_probs is None else sum(answer.log_probs),
        finish=answer.finish,
        num_prompt_tokens=answer.num_prompt_tokens,
        num_shared=0,
        # So that a perplexity is the mean over the tokens of the sum.
        num_new_tokens=answer.num_completion_tokens if answer.log_probs is None else len(answer.log_probs),
        flags=merge_flags(flags),
    )
