"""Generating: a prompt is continued."""

from dataclasses import dataclass

from jobs.errors import SpecError
from jobs.outcome import Finish, Flag, Generation
from jobs.tasks import shared_options as shared
from jobs.tasks.kind import Compared, Exported, Field, Kind, Mean, Measure, PayloadKind, Type, Words, token_count
from jobs.tasks.option import check_numbers, option, options_of
from jobs.tasks.task import Task

_MAX_STOPS = 16  # each is looked for after every token


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """Options of continuing prompts. Of the model's own settings, those of length and sampling do not count;
    None: the value in its generation_config.json."""

    max_new_tokens: int = option(256, shared.MAX_NEW_TOKENS)  # the token that ends the continuation counts
    temperature: float = option(0.0, shared.TEMPERATURE)
    top_p: float = option(1.0, shared.TOP_P)
    top_k: int = option(0, shared.TOP_K)
    seed: int = option(0, shared.SEED)
    stop: tuple[str, ...] = option(  # they do not belong to the continuation
        (),
        "End a continuation before this text, for example a line break ($'\\n' in bash); may be given again.",
        metavar="TEXT",
    )
    repetition_penalty: float | None = option(None, shared.REPETITION_PENALTY)
    no_repeat_ngram_size: int | None = option(None, shared.NO_REPEAT_NGRAM_SIZE)
    chat: bool = option(
        False, "Documents are messages, or a text of the user, which the model's chat template turns into a prompt."
    )
    system: str | None = option(None, "With --chat: a message of the system before each document.", metavar="TEXT")
    prefix_cache: bool = option(True, shared.PREFIX_CACHE)
    cache: shared.CachePolicy = option(shared.AUTO_CACHE, shared.CACHE)
    batch_size: int | None = option(None, shared.BATCH_SIZE)  # prompts that run at a time; None: the engine chooses
    # Documents may have options of their own, which come first (`jobs.corpus.own_options`). A batch file sets it.
    own_options: bool = option(False, is_later=True)
    timing: shared.Timing = option(shared.Timing.STEPS, shared.TIMING)

    def __post_init__(self) -> None:
        check_numbers(self)
        shared.check_sampling(self.temperature, self.top_p, self.top_k)
        if "" in self.stop or len(self.stop) > _MAX_STOPS:
            raise SpecError(f"a stop text is not empty, and there are at most {_MAX_STOPS}")
        if self.system is not None and not self.chat:
            raise SpecError("a system message is part of a chat template: give --chat as well")
        if self.cache.mode == "hybrid":
            raise SpecError(f"cache is {self.cache}; to generate, it can be auto, on or off")


_MEAN = Mean("log_prob", "num_new_tokens", of="continuation")

GENERATE = Kind(
    name=Task.GENERATE,
    options_type=GenerateOptions,
    options=(*options_of(GenerateOptions), shared.TEXT_FIELD),
    models=("causal",),
    default_model="demo-lm",
    payload_where=(("chat", "own_options"), PayloadKind.MESSAGES),
    has_large_shards=True,
    too_long="which fail",
    table="generations",
    about="The result of a document of a generating job: what its prompt was continued with.",
    words=Words("prompt", "continue", "continuing", "continued", "Prompt", "Continuation"),
    token_words=("{read} of prompts, {made} generated", "generated, after {read} of prompts"),
    difference="share of changed words, mean",
    main="generation",
    outcome=Generation,
    mean=_MEAN,
    length="num_prompt_tokens",
    text="text",
    compared=("text",),
    compared_as=Compared.TEXTS,
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
            words={Finish.EOS: "by the model", Finish.STOP: "at a stop text", Finish.LENGTH: "at the limit"},
        ),
        token_count("num_prompt_tokens", "of the prompt", counter="source_tokens"),
        token_count("num_shared", "of the prompt that were read for another document"),
        token_count("num_new_tokens", "generated, the one that ended it included", counter="target_tokens"),
    ),
)
