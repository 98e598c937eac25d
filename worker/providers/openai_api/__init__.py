"""The API of OpenAI, as OpenAI, vLLM, llama.cpp, llama-cpp-python and others speak it."""
