"""What the configuration and the inputs of a model's graphs say of it, read without opening a session."""
