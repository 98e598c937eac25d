"""The fallback table: every provider is made to fail in every way, and what was recorded is compared with the page."""
