"""Causal language models in GGUF files, run by llama.cpp in this process (llama-cpp-python, the extra `gguf`)."""
