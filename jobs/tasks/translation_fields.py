"""What is stored of a translated document: the columns of `translations`, and how a result fills them."""

from jobs.outcome import Translation
from jobs.tasks.kind import Exported, Field, Type, as_json, token_count


def _alternatives(result: Translation) -> str | None:
    found = [{"translation": alternative.text, "score": alternative.score} for alternative in result.alternatives]
    return as_json(found) if found else None


def _segments(result: Translation) -> str | None:
    """The borders of the segments as JSON. (json.dumps takes three times as long, for every document.)"""
    if not result.segments:
        return None
    return f"[{','.join([f'[{a},{b},{c},{d}]' for a, b, c, d in result.segments])}]"


def _alignments(result: Translation) -> str | None:
    """The words of each segment as JSON, with their links in the form of Pharaoh."""
    if not result.alignments:
        return None
    return as_json(
        [
            words
            and {
                "source": words.source,
                "target": words.target,
                "links": " ".join([f"{i}-{j}" for i, j in words.links]),
            }
            for words in result.alignments
        ]
    )


def _via_segments(result: Translation) -> str | None:
    if result.via is None:
        return None
    return f"[{','.join([f'[{start},{stop}]' for start, stop in result.via.segments])}]"


TRANSLATION_FIELDS = (
    Field(name="text", type=Type.TEXT, meaning="the translation", view="translation"),
    Field(
        name="log_prob",
        type=Type.FLOAT,
        meaning="log-probability, summed over the generated tokens; null where the provider returns none",
        unit="nats",
        is_nullable=True,
        export=Exported.WITH_LOG_PROB,
    ),
    Field(
        name="num_segments",
        type=Type.INTEGER,
        meaning="sentences, those passed through included",
        unit="segments",
        counter="segments",
        export=Exported.NEVER,
    ),
    Field(
        name="num_reused",
        type=Type.INTEGER,
        meaning="segments taken from the translation memory",
        unit="segments",
        counter="segments_reused",
        export=Exported.NEVER,
        view_meaning="segments from the translation memory",
    ),
    token_count("num_source_tokens", "of the source", counter="source_tokens"),
    token_count("num_target_tokens", "generated, ends of sentences included", counter="target_tokens"),
    Field(
        name="alternatives",
        type=Type.JSON,
        value=_alternatives,
        meaning="the n best translations, JSON; null unless `--n-best` asks for them",
        is_nullable=True,
        export=Exported.WHERE_ASKED,
        asked_by="n_best",
        export_name="nbest",
        is_viewed=False,
    ),
    Field(
        name="segments",
        type=Type.JSON,
        value=_segments,
        meaning="where each translated sentence is: a JSON list of [start, stop in the source, start, stop in the "
        "translation], in characters (Unicode code points) from 0, in their order; null for a result of an older "
        "version and where there is no sentence",
        is_nullable=True,
        export=Exported.NEVER,
        is_condition=False,
    ),
    Field(
        name="via",
        type=Type.TEXT,
        value=lambda result: result.via and result.via.text,
        meaning="the text in the middle, where two models translated (`--via`): the first made it, the second read "
        "it; the columns above without `via` are of the source and of the second model's translation",
        view_meaning="the text in the middle, where two models translated (`--via`); then `log_prob` and "
        "`num_target_tokens` are of the second model, and `num_source_tokens` of the source",
        is_nullable=True,
        of_via=True,
    ),
    Field(
        name="via_log_prob",
        type=Type.FLOAT,
        value=lambda result: result.via and result.via.log_prob,
        meaning="log-probability of `via`, summed over the tokens that the first model generated",
        unit="nats",
        is_nullable=True,
        export=Exported.WITH_LOG_PROB,
        of_via=True,
    ),
    token_count(
        "via_source_tokens",
        "of `via`, as the second model reads it",
        value=lambda result: result.via and result.via.num_source_tokens,
        is_nullable=True,
        of_via=True,
    ),
    token_count(
        "via_target_tokens",
        "that the first model generated for `via`",
        value=lambda result: result.via and result.via.num_target_tokens,
        is_nullable=True,
        of_via=True,
    ),
    Field(
        name="via_segments",
        type=Type.JSON,
        value=_via_segments,
        meaning="where each sentence of `segments` is in `via`: a JSON list of [start, stop], in characters, in "
        "their order",
        is_nullable=True,
        export=Exported.NEVER,
        is_condition=False,
        of_via=True,
    ),
    Field(
        name="unknown_share",
        type=Type.FLOAT,
        meaning="of the characters of the source's sentences, white space aside, those that the model's vocabulary "
        "lacks (its unknown tokens), from 0 to 1; null where there is no sentence, for a server's answer and for a "
        "result of an older version",
        unit="of 1",
        is_nullable=True,
        export=Exported.WITH_TOKENS,
    ),
    Field(
        name="alignments",
        type=Type.JSON,
        value=_alignments,
        meaning="for each translated sentence, in their order, which words of both sides belong together: a JSON "
        "list of {source, target, links}. source and target list the words as [start, stop], in characters from 0 "
        "of the document and of the translation; links is Pharaoh's form, `0-0 1-2`, by the places of words in "
        "these lists. null for a sentence that was translated in pieces. The column is null unless `--alignments` "
        "asks for it",
        is_nullable=True,
        export=Exported.WHERE_ASKED,
        asked_by="alignments",
        is_viewed=False,
    ),
)
