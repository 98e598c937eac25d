"""Weather bulletins in English and Chinese, drawn from a grammar: what the bundled models learned."""
