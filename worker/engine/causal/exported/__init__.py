"""Exports of causal models: graphs by Optimum, transformers.js and onnxruntime-genai, used as far as each allows."""
