"""Translation models: encoder, decoder, KV cache. Ids in, hypotheses or log-probabilities out."""
