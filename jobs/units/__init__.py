"""Files of translation units: sentences with their translations, as translators and their programs exchange them."""
