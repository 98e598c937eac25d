"""Exports of translation models: graphs by Optimum and transformers.js, the cache as their inputs and outputs."""
