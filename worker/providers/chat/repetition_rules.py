"""The options against repetition, which a server's own sampler cannot follow as a model here does."""

from jobs.tasks.generate import GenerateOptions
from jobs.tasks.translate import TranslateOptions


def why_not_against_repetition(options: TranslateOptions | GenerateOptions) -> str | None:
    """Why a server cannot follow the options of a job against repetition, a sentence; None: the job has none.

    Servers have penalties of several kinds (some leave the prompt out, some look back 64 tokens only), and one that
    does not know a field ignores it.
    """
    if options.repetition_penalty is not None:
        return "servers penalize repetition each in their own way, so --repetition-penalty cannot be followed"
    if options.no_repeat_ngram_size is not None:
        return "servers do not forbid sequences of tokens, so --no-repeat-ngram-size cannot be followed"
    return None
