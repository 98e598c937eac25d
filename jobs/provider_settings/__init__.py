"""The settings of providers that are more than a number: how each is written, and what it means."""
