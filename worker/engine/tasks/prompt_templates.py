"""
The text of a query and a document, cut where the scored part begins.

    template   Document: {document}\\nQuery: {query}
    given      Document: ...\\nQuery:
    scored     a space and the query

White space before the scored part belongs to it, as lm-evaluation-harness has it (`TemplateLM._encode_pair`), for
vocabularies have words with a space in front, not behind. Whatever a text holds, braces too, is text.
"""

from dataclasses import dataclass

from jobs.spec import Method

QUERY, DOCUMENT = "{query}", "{document}"
TEMPLATES = {
    Method.QUERY_LIKELIHOOD: "Document: {document}\nQuery: {query}",
    Method.PERPLEXITY: "Query: {query}\nDocument: {document}",
}


@dataclass(frozen=True, slots=True)
class Template:
    """The text around the two placeholders. The one that comes last is scored, and nothing but white space, which is
    dropped, comes behind it."""

    before: str
    between: str
    scores_query: bool

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Read a template that `RerankOptions` lets pass: it holds each placeholder once, one of them at its end."""
        scores_query = text.index(QUERY) > text.index(DOCUMENT)
        first, last = (DOCUMENT, QUERY) if scores_query else (QUERY, DOCUMENT)
        before, rest = text.split(first)
        return cls(before, rest.split(last)[0], scores_query)

    def split(self, query: str, document: str) -> tuple[str, str]:
        """What is given and what is scored; one after the other they are the template with both texts filled in."""
        first, last = (document, query) if self.scores_query else (query, document)
        head = self.before + first + self.between
        given = head.rstrip()
        return given, head[len(given) :] + last
