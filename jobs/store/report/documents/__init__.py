"""Documents as people ask for them: one, a page, a selection, those of two jobs."""
