"""SQL of the user's own, read-only, and saved questions."""
