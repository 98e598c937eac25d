"""Terms of a glossary in a text, and whether their translation is in a translation."""
