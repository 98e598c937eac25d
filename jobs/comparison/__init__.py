"""Two jobs side by side: the same documents, other options or another model. Statistics in bounded memory."""
