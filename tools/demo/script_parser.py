"""The command line of the scripts in this folder: their help is their module's docstring."""

import argparse


def script_parser(module: str, doc: str | None) -> argparse.ArgumentParser:
    """A parser for `python -m tools.demo.MODULE`; `doc`: its docstring, a summary and details."""
    summary, _, details = (doc or "").partition("\n\n")
    return argparse.ArgumentParser(
        prog=f"python -m tools.demo.{module}",
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
