"""Folders that tests read: those of the checkout, and one of a published model that is too large for it."""

import os
from pathlib import Path

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"
CHECKOUT = TESTS.parent
EXAMPLES = CHECKOUT / "examples"
DEMO_MODEL = CHECKOUT / "worker" / "demo" / "en-zh"
# Tokenizer files of Helsinki-NLP/opus-mt-en-mg, 2.6 MB.
OPUS_MT = Path(os.environ.get("KVJOBS_TEST_DATA") or CHECKOUT.parent / "shared" / "data") / "opus-mt-en-mg"
