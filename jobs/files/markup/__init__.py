"""Files of tags: web pages, Markdown, exchange formats of translators, office documents."""
