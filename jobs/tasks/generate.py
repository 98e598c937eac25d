"""Generating: a prompt is continued."""

from jobs.outcome import Flag, Generation
from jobs.spec import Task
from jobs.tasks.kind import Exported, Field, Kind, Mean, Measure, Type, Words

_MEAN = Mean("log_prob", "num_new_tokens")

GENERATE = Kind(
    name=Task.GENERATE,
    table="generations",
    about="The result of a document of a generating job: what its prompt was continued with.",
    words=Words("prompt", "continue", "continuing", "continued", "Prompt", "Continuation"),
    token_words=("{read} of prompts, {made} generated", "generated, after {read} of prompts"),
    main="generation",
    outcome=Generation,
    mean=_MEAN,
    length="num_prompt_tokens",
    text="text",
    compared=("text",),
    measures=(
        Measure("perplexity", _MEAN),
        Measure("log-probability", "log_prob", "nats"),
        Measure("tokens of the prompt", "num_prompt_tokens"),
        Measure("of them read for others", "num_shared"),
        Measure("new tokens", "num_new_tokens"),
        Measure("ended by", "finish"),
    ),
    flags=(Flag.TRUNCATED, Flag.REPETITION, Flag.UNSCORED),
    fields=(
        Field(
            name="text",
            type=Type.TEXT,
            meaning="the continuation, without the prompt and without the stop text",
            view="generation",
        ),
        Field(
            name="log_prob",
            type=Type.FLOAT,
            meaning="log-probability under the model itself, summed over the new tokens; null where the provider "
            "returns none",
            unit="nats",
            is_nullable=True,
            export=Exported.WITH_LOG_PROB,
        ),
        Field(
            name="finish",
            type=Type.TEXT,
            value=lambda result: result.finish.value,
            meaning="why it ended: `eos` (the model ended it), `stop` (a stop text appeared) or `length` "
            "(`--max-new-tokens`, or the model's positions)",
            export=Exported.ALWAYS,
        ),
        Field(
            name="num_prompt_tokens",
            type=Type.INTEGER,
            meaning="of the prompt",
            unit="tokens",
            counter="source_tokens",
            export=Exported.WITH_TOKENS,
        ),
        Field(
            name="num_shared",
            type=Type.INTEGER,
            meaning="of the prompt that were read for another document",
            unit="tokens",
            export=Exported.WITH_TOKENS,
        ),
        Field(
            name="num_new_tokens",
            type=Type.INTEGER,
            meaning="generated, the one that ended it included",
            unit="tokens",
            counter="target_tokens",
            export=Exported.WITH_TOKENS,
        ),
    ),
)
