"""gettext's .po and .pot."""
