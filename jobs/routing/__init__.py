"""Which models translate a document: routes, the table of them, and what a user asks for."""
