"""The bundled models: the grammar that made their corpus, how they were trained, how right they are."""
