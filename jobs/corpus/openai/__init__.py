"""Batch files of OpenAI: a request a line, `{"custom_id", "method", "url", "body"}`."""
