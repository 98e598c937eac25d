"""The bundled models: the grammar of their corpus, their training, their accuracy."""
