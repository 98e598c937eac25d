"""Files, batches and models as OpenAI's clients ask for them, below /v1."""
