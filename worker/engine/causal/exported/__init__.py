"""Exports of causal models: graphs by Optimum, transformers.js and onnxruntime-genai, whatever they are capable of."""
