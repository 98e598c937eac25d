"""The API of Ollama: https://docs.ollama.com/api"""
