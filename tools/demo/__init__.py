"""The bundled models: their corpora, their training, their accuracy."""
