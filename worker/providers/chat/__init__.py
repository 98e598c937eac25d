"""Translation by a chat model: the languages, the prompt, and the outcome that an answer makes."""
