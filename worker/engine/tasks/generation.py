"""
Continuing prompts with a causal model.

    texts    messages -> prompts, where the job is a chat
             tokenize -> ids
             continue -> ids, each prompt until the model ends it, a stop text appears, or enough tokens came
             detokenize -> outcomes, in the order of the texts

Knows: one model, one lane. Does not know: jobs, shards, tables, graphs.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.answers import Answers
from jobs.corpus.messages import Message, read_messages, with_system
from jobs.corpus.own_options import own_prompt
from jobs.errors import ModelError, SpecError
from jobs.outcome import Failed, Finish, Flag, Generation, Outcome
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.shared_options import CachePolicy
from worker.engine.causal.protocol import CausalModel, Generator
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.continuation import Continuation, EndsIn
from worker.engine.search.continuation_rules import ContinuationRules, OwnRules
from worker.engine.search.logit_rules import Ids
from worker.engine.tasks.document_assembly import merge_flags
from worker.engine.tasks.tokenizers import MessageTokenizer, PromptTokenizer, check_vocabulary
from worker.text.chat_template import RenderError
from worker.text.loops import has_loop

_BATCH_SIZE = 32  # prompts that run at a time, where the user does not say
_CONTEXT = 8  # tokens of the prompt that are detokenized with the first new ones
_REPLACEMENT = "\ufffd"


@dataclass(frozen=True, slots=True)
class _Prompts:
    """The documents that can be continued, and why the others cannot."""

    ids: list[list[int]]
    documents: list[int]  # the index of each prompt's document
    failed: dict[int, Failed]  # by document
    options: list[GenerateOptions]  # of each prompt

    def with_equal_rules(self, options: GenerateOptions) -> list[tuple[GenerateOptions, "_Prompts"]]:
        """The prompts in parts that can run together, whose options differ in nothing but length and seed."""
        if not options.own_options:
            return [(options, self)]
        parts: dict[GenerateOptions, _Prompts] = {}
        for ids, document, own in zip(self.ids, self.documents, self.options, strict=True):
            shared = dataclasses.replace(own, max_new_tokens=options.max_new_tokens, seed=options.seed)
            part = parts.setdefault(shared, _Prompts([], [], {}, []))
            part.ids.append(ids)
            part.documents.append(document)
            part.options.append(own)
        return [*parts.items()]


class PromptContinuer:
    """One lane's engine for one model: the model is shared, the buffers are not."""

    def __init__(self, model: CausalModel, tokenizer: PromptTokenizer, chat: MessageTokenizer | None = None) -> None:
        """`chat`: where the model has a chat template. Raises ModelError if the tokenizer does not belong to the
        model."""
        check_vocabulary(tokenizer, model)
        self.model = model
        self.generator: Generator = model.new_generator()
        self._policy = CachePolicy()  # of `generator`: a lane has one at a time, so only one set of buffers
        self._tokenizer = tokenizer
        self._chat = chat

    @property
    def buffer_stats(self) -> BufferStats:
        return self.generator.buffer_stats

    def generate(self, texts: Sequence[str], options: GenerateOptions, run: RunContext) -> Answers:
        """Continue every text. Raises SpecError if the model cannot do what the options ask, Stopped if the run is to
        end.

        A prompt without tokens, or with more than the model has positions, is `Failed`, as is one for which the model
        gives NaN or infinity. No text affects the outcome of another.
        """
        _ = self._rules(options)
        if options.chat:
            self._check_chat(options)
        if options.cache != self._policy:
            self.generator = self.model.new_generator(options.cache)
            self._policy = options.cache
        with run.measure("tokenize", rows=len(texts)) as counted:
            prompts = self._encode(texts, options)
            counted.tokens = sum(map(len, prompts.ids))
        outcomes: dict[int, Outcome] = dict(prompts.failed)
        for shared, part in prompts.with_equal_rules(options):
            outcomes |= self._continue(part, shared, run)
        return Answers(outcomes=[outcomes[index] for index in range(len(texts))], timings=run.timings)

    def _rules(self, options: GenerateOptions) -> ContinuationRules:
        rules = self.model.continuation_rules.with_options(options)
        # EOS ends a message, even if other ids end a text.
        return rules.with_end(self._tokenizer.eos_id) if options.chat else rules

    def _continue(self, prompts: _Prompts, options: GenerateOptions, run: RunContext) -> dict[int, Outcome]:
        """The outcomes of prompts that run together, by document."""
        rules = self._rules(options)
        found = self.generator.generate(
            prompts.ids,
            rules,
            run,
            batch_size=options.batch_size or _BATCH_SIZE,
            shares_prefixes=options.prefix_cache,
            ends_in=self._stops(prompts, rules) if rules.stop_texts else None,
            own_rules=[OwnRules(own.max_new_tokens, own.seed) for own in prompts.options],
        )
        outcomes: dict[int, Outcome] = {}
        for ended in found:
            num_tokens = sum(len(continuation.ids) for _, continuation in ended)
            with run.measure("detokenize", rows=len(ended), tokens=num_tokens):
                for index, continuation in ended:
                    outcomes[prompts.documents[index]] = self._outcome(prompts.ids[index], continuation, rules)
        return outcomes

    def prompt_length(self, text: str, options: GenerateOptions) -> int:
        """The tokens of a document's prompt; 0 where it cannot be tokenized."""
        try:
            return len(self._ids(*own_prompt(text, options)))
        except ModelError:
            return 0

    def _check_chat(self, options: GenerateOptions) -> None:
        """Raise SpecError where the model has no chat template, or one that refuses a system message."""
        if self._chat is None:
            raise SpecError("the model has no chat template: leave --chat out, or name another --model")
        try:
            self._chat.encode(with_system([Message("user", "?")], options.system))
        except RenderError as error:
            raise SpecError(f"{error}; leave --system out" if options.system is not None else str(error)) from error

    def _ids(self, text: str, options: GenerateOptions) -> list[int]:
        """Raises ModelError."""
        if self._chat is None or not options.chat:
            return self._tokenizer.encode_prompt(text)
        return self._chat.encode(with_system(read_messages(text), options.system))

    def _encode(self, texts: Sequence[str], options: GenerateOptions) -> _Prompts:
        prompts = _Prompts([], [], {}, [])
        for index, text in enumerate(texts):
            try:
                prompt, own = own_prompt(text, options)
                ids = self._ids(prompt, own)
            except RenderError as error:
                prompts.failed[index] = Failed("chat-template", str(error))
                continue
            except ModelError as error:  # only this text fails: the tokenizer itself was checked when it was opened
                prompts.failed[index] = Failed("engine-error", str(error))
                continue
            if why := _why_not(ids, self.model.max_positions):
                prompts.failed[index] = why
            else:
                prompts.ids.append(ids)
                prompts.documents.append(index)
                if options.own_options:
                    prompts.options.append(own)
        return prompts

    def _stops(self, prompts: _Prompts, rules: ContinuationRules) -> EndsIn:
        """Whether a continuation holds a stop text."""

        def ends_in(index: int, ids: Ids) -> bool:
            return ContinuedText(self._tokenizer, prompts.ids[index]).ends_in(ids.tolist(), rules.stop_texts)

        return ends_in

    def _outcome(self, prompt: Sequence[int], found: Continuation, rules: ContinuationRules) -> Outcome:
        if not math.isfinite(found.log_prob):
            return Failed("non-finite", "the model's logits are not finite (NaN or infinity) after this prompt")
        text = ContinuedText(self._tokenizer, prompt).text(found.ids)
        flags = []
        if found.finish is Finish.STOP:
            text = text[: min(start for stop in rules.stop_texts if (start := text.find(stop)) >= 0)]
        if found.finish is Finish.LENGTH:
            flags.append(Flag.TRUNCATED)
        if has_loop(text):
            flags.append(Flag.REPETITION)
        return Generation(
            text=text,
            log_prob=found.log_prob,
            finish=found.finish,
            num_prompt_tokens=len(prompt),
            num_shared=found.num_shared,
            num_new_tokens=len(found.ids),
            flags=merge_flags(flags),
        )


def _why_not(ids: Sequence[int], max_positions: int) -> Failed | None:
    """Why a prompt cannot be continued; None: it can."""
    if not ids:
        return Failed(
            "empty-prompt",
            "the document has no token, and the model's tokenizer puts none before it, so there is nothing to continue",
        )
    if len(ids) > max_positions:
        return Failed("too-long", f"the prompt has {len(ids):,} tokens, and the model {max_positions:,} positions")
    return None


@dataclass(frozen=True, slots=True)
class ContinuedText:
    """One continuation. New ids are detokenized together with the end of the prompt: alone, a first token may lose
    its space (SentencePiece), and the bytes of a character may lie on both sides."""

    tokenizer: PromptTokenizer
    prompt: Sequence[int]

    def text(self, ids: Sequence[int]) -> str:
        """The text that these new ids add."""
        return self._after(self.prompt, ids)

    def ends_in(self, ids: Sequence[int], stops: Sequence[str]) -> bool:
        """Whether the last of the new ids completes one of `stops`.

        A token stands for a byte or more, unless it is a special one, so only the last tokens are looked at: as many
        that show as a stop text has bytes.
        """
        for stop in stops:
            tail = self._last(ids, len(stop.encode()) + 1)
            before = ids[: len(ids) - len(tail)]
            if stop in self._after(before or self.prompt, tail):
                return True
        return False

    def _after(self, before: Sequence[int], ids: Sequence[int]) -> str:
        context = self._last(before, _CONTEXT)
        base, whole = self.tokenizer.decode(context), self.tokenizer.decode([*context, *ids])
        # Of a character whose other bytes are among the new ids. The text may have this character, too: it stays.
        while base.endswith(_REPLACEMENT) and not whole.startswith(base):
            base = base[:-1]
        return whole[len(base) :] if whole.startswith(base) else self.tokenizer.decode(ids)

    def _last(self, ids: Sequence[int], count: int) -> Sequence[int]:
        """The last ids, of which `count` show in the text."""
        start = len(ids)
        while start and count:
            start -= 1
            count -= not self.tokenizer.is_silent(ids[start])
        return ids[start:]
