"""
The prompt of a query and a document, cut in two where the scored part begins.

    template   Document: {document}\\nQuery: {query}
    given      Document: ...\\nQuery:
    scored     a space and the query

White space before the scored part belongs to that part, as in lm-evaluation-harness (`TemplateLM._encode_pair`),
because vocabularies hold words with a space before them, not after them. Braces in a query or document are plain text.
"""

from dataclasses import dataclass

from jobs.tasks.rerank import Method, RerankOptions

QUERY, DOCUMENT = "{query}", "{document}"
TEMPLATES = {
    Method.QUERY_LIKELIHOOD: "Document: {document}\nQuery: {query}",
    Method.PERPLEXITY: "Query: {query}\nDocument: {document}",
}


@dataclass(frozen=True, slots=True)
class Template:
    """The text around the two placeholders. The second placeholder is the scored part; only white space, which is
    dropped, may follow it."""

    before: str  # the text before the first placeholder
    between: str  # the text between the two
    scores_query: bool  # whether the query comes last and is scored; else the document

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Read a template that `RerankOptions` has checked: it holds each placeholder once, one of them at its end."""
        scores_query = text.index(QUERY) > text.index(DOCUMENT)
        first, last = (DOCUMENT, QUERY) if scores_query else (QUERY, DOCUMENT)
        before, rest = text.split(first)
        return cls(before, rest.split(last)[0], scores_query)

    def split(self, query: str, document: str) -> tuple[str, str]:
        """The given part and the scored part. Together they are the template with both texts filled in."""
        first, last = (document, query) if self.scores_query else (query, document)
        head = self.before + first + self.between
        given = head.rstrip()
        return given, head[len(given) :] + last


def template_of(options: RerankOptions) -> Template:
    """The template of a causal model's method: the user's, else the method's own."""
    return Template.parse(options.template or TEMPLATES[options.method or Method.QUERY_LIKELIHOOD])
