"""Folders of the checkout that tests read."""

from pathlib import Path

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"
CHECKOUT = TESTS.parent
EXAMPLES = CHECKOUT / "examples"
DEMO_MODEL = CHECKOUT / "worker" / "demo" / "en-zh"
