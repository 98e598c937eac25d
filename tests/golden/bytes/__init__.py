"""The bytes of everything that `jobs` shows and writes, as digests: a change of the code's structure changes none.

    python -m tests.golden.bytes make               digests.json anew, where a change is meant
    python -m tests.golden.bytes write FOLDER       the outputs themselves: before and after a change, for `diff -r`

A database of made rows (`made_jobs`) is shown in every form (`outputs`), with everything pinned that differs between
two runs (`pins`). tests/commands/test_golden_bytes.py compares the digests on both databases.
"""
