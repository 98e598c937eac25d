"""Faults that the tests have to notice, each put into a copy of the tree on its own.

    python -m tools.mutations              # all, some minutes
    python -m tools.mutations fence int8   # those whose name has one of these words

First the tests run without a fault, where all of them have to pass. Ends with 1 where a fault is not noticed. CI does
not run it. Where the product no longer has a text that stands here, it says so: look where that line went.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PASSED, FAILED = 0, 1  # exit codes of pytest; others mean that it could not run the tests


@dataclass(frozen=True, slots=True)
class Mutation:
    """A text that occurs once in a file of the product, what takes its place, and the test that then fails."""

    name: str
    path: str
    text: str
    replacement: str
    test: str


_LEASES, _TEST_LEASES = "jobs/store/queue/leases.py", "tests/store/queue/test_leases.py"
_TEST_RECORD = "tests/store/queue/test_record.py"
_TEST_READER = "tests/models/engine/causal/native/test_reader.py"
_PAIRS, _TEST_PAIRS = "worker/graphs/cross_encoder/graph.py", "tests/models/engine/cross_encoder/test_cross_encoder.py"
_SLOTS = "worker/engine/seq2seq/native/kv_slots.py"
_TEST_SLOTS = "tests/unit/worker/engine/seq2seq/native/test_kv_slots.py"
_TEST_OUTPUT = "tests/unit/jobs/cli/render/test_output.py"
_RETRIES, _TEST_RETRIES = "worker/providers/http/client.py", "tests/unit/worker/providers/http/test_retries.py"

MUTATIONS = (
    Mutation(
        "fence: any token", "jobs/store/queue/work.py",
        "        Shard.lease_token == work.token,\n", "",
        "tests/store/test_identity.py::"
        "test_a_restored_database_gives_the_number_of_a_lease_away_again_but_not_its_token",
    ),
    Mutation(
        "fence: any state", "jobs/store/queue/work.py",
        "(*newest_lease(work), Shard.state == ShardState.LEASED)", "newest_lease(work)",
        f"{_TEST_LEASES}::test_a_shard_that_is_done_is_not_given_back",
    ),
    Mutation(
        "fence: a release without it", _LEASES,
        "update(Shard).where(*fence(work))", "update(Shard).where(Shard.id == work.shard_id)",
        f"{_TEST_RECORD}::test_a_lost_lease_is_refused_even_while_no_worker_has_leased_its_shard",
    ),
    Mutation(
        "fence: a heartbeat of any token", _LEASES,
        "        Shard.lease_token.in_({work.token for work in works}),\n", "",
        f"{_TEST_LEASES}::test_a_heartbeat_of_a_lost_lease_renews_no_later_one",
    ),
    Mutation(
        "record: any batch in flight", "jobs/store/queue/record.py",
        "Shard.in_flight == positions_json(batch), *fence(work)", "*fence(work)",
        f"{_TEST_RECORD}::test_recording_a_middle_batch_twice_is_harmless_too",
    ),
    Mutation(
        "export: any order", "jobs/store/report/documents/export.py",
        ".where(document.job_id == job_id)\n        .order_by(document.position)", ".where(document.job_id == job_id)",
        "tests/commands/export/test_export.py::test_every_ended_document_is_a_record_in_the_order_of_the_corpus",
    ),
    Mutation(
        "int8: 100 steps in the graph", "worker/graphs/matrix_products.py",
        '"one_127th", 1 / 127', '"one_127th", 1 / 100',
        "tests/models/graphs/test_matrix_products.py::test_the_error_of_a_product_is_that_of_127_steps_on_both_sides",
    ),
    Mutation(
        "int8: 100 steps in the kernel", "worker/kernels/rows.c",
        "(float)(1.0 / 127)", "(float)(1.0 / 100)",
        "tests/models/kernels/test_rows.py::test_rows_are_what_the_operations_give_one_after_the_other",
    ),
    Mutation(
        "mask: suffixes see each other", "worker/engine/causal/native/packed_rows.py",
        "_MASKED = np.float32(-1e30)", "_MASKED = np.float32(0)",
        f"{_TEST_READER}::test_every_token_has_the_log_probability_of_the_numpy_reference",
    ),
    Mutation(
        "mask: the padding of pairs is read", _PAIRS,
        'q, k, v, "", self._lengths,', 'q, k, v, "", "",',
        f"{_TEST_PAIRS}::test_a_batch_gives_each_pair_what_it_gets_alone",
    ),
    Mutation(
        "slot: handed out twice", _SLOTS,
        "        self.num_sentences = stop\n", "        self.num_sentences = max(start, stop - 1)\n",
        f"{_TEST_SLOTS}::test_admitted_sentences_follow_the_others_and_start_at_position_0",
    ),
    Mutation(
        "slot: the length of the last sentence", _SLOTS,
        "        self._positions[start * self._beams : stop * self._beams] = 0\n", "",
        f"{_TEST_SLOTS}::test_admitted_sentences_follow_the_others_and_start_at_position_0",
    ),
    Mutation(
        "slot: the shared beginnings of the last sentence", _SLOTS,
        "        self._shared.clear(slice(start, stop))\n", "",
        f"{_TEST_SLOTS}::"
        "test_the_rows_of_a_sentence_have_nothing_in_common_from_the_last_one_in_their_slot",
    ),
    Mutation(
        "slot: the length of the last prompt", "worker/engine/causal/native/lane_body.py",
        "        self.lengths[self.num_rows : self.num_rows + rows] = 0\n", "",
        "tests/models/engine/causal/native/test_generation.py::test_a_batch_gives_each_prompt_what_it_gets_alone",
    ),
    Mutation(
        "window: one token too long", "worker/graphs/causal/attention.py",
        "-1 if window is None else window,", "-1 if window is None else window + 1,",
        f"{_TEST_READER}::test_every_token_has_the_log_probability_of_the_numpy_reference",
    ),
    Mutation(
        "window: one token too short for pairs", _PAIRS,
        'net.op("Greater", distance', 'net.op("GreaterOrEqual", distance',
        f"{_TEST_PAIRS}::test_the_numpy_reference_gives_the_same_logits",
    ),
    Mutation(
        "window: of a long document one token short", "worker/engine/tasks/scoring.py",
        "stop = min(start + size, length)", "stop = min(start + size - 1, length)",
        "tests/unit/worker/engine/tasks/test_windows.py::test_windows_by_hand",
    ),
    Mutation(
        "escape: HTML of a text", "jobs/web/document_view/marked_text.py",
        "*parts, escape(text[at:])", "*parts, Markup(text[at:])",
        "tests/unit/jobs/web/document_view/test_marked_text.py::test_html_is_text",
    ),
    Mutation(
        "escape: HTML of a page", "jobs/web/rendering.py",
        "autoescape=True", "autoescape=False",
        "tests/commands/web/test_compare_page.py::test_texts_of_documents_are_shown_and_do_nothing_else",
    ),
    Mutation(
        "escape: terminal", "jobs/text/formatting.py",
        r'"[\x00-\x1f', r'"[\x00-\x1a\x1c-\x1f',
        f"{_TEST_OUTPUT}::test_control_characters_are_made_visible",
    ),
    Mutation(
        "escape: formula of CSV", "jobs/text/csv_text.py",
        r"[=+\-@＝", r"[=+\-＝",
        f"{_TEST_OUTPUT}::test_a_cell_never_starts_a_formula",
    ),
    Mutation(
        "retry-after: ignored", "worker/providers/http/client.py",
        "wait_s = wait_s if asked_s is None else asked_s", "pass",
        "tests/processes/providers/test_http_client.py::"
        "test_the_wait_that_a_server_asks_for_is_kept_and_a_long_one_is_not_waited_for",
    ),
    Mutation(
        "retry-after: milliseconds", _RETRIES,
        "return float(text)", "return float(text) / 1000",
        f"{_TEST_RETRIES}::test_retry_after_is_seconds_or_a_date_and_nothing_else",
    ),
    Mutation(
        "retry-after: no date", _RETRIES,
        "return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())", "return None",
        f"{_TEST_RETRIES}::test_retry_after_is_seconds_or_a_date_and_nothing_else",
    ),
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutations", description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only mutations whose name has one of these words; none: all")
    words = parser.parse_args().words
    chosen = [mutation for mutation in MUTATIONS if not words or any(word in mutation.name for word in words)]
    if not chosen:
        parser.error(f"no mutation has such a name; there are {', '.join(mutation.name for mutation in MUTATIONS)}")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        _copy_tree(tree)
        tests = sorted({mutation.test for mutation in chosen})
        if _run(tree, tests) != PASSED:
            raise SystemExit("the tests fail, or cannot run, without a mutation")
        survived = [mutation.name for mutation in chosen if not _is_noticed(tree, mutation)]
    print(f"{len(chosen) - len(survived)} of {len(chosen)} noticed")
    return 1 if survived else 0


def _copy_tree(tree: Path) -> None:
    """Copy the files that git knows, as they are now, and compile the kernels."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    _compile(tree)


def _is_noticed(tree: Path, mutation: Mutation) -> bool:
    """Whether its test fails with the mutation. The tree is afterwards as it was."""
    file = tree / mutation.path
    original = file.read_text(encoding="utf-8")
    if original.count(mutation.text) != 1:
        raise SystemExit(f"{mutation.path} has {original.count(mutation.text)} times: {mutation.text!r}")
    is_kernel = file.suffix == ".c"
    try:
        file.write_text(original.replace(mutation.text, mutation.replacement), encoding="utf-8")
        if is_kernel:
            _compile(tree)
        code = _run(tree, [mutation.test])
    finally:
        file.write_text(original, encoding="utf-8")
        if is_kernel:
            _compile(tree)
    if code not in (PASSED, FAILED):
        raise SystemExit(f"pytest ended with {code} under the mutation {mutation.name!r}")
    print("noticed " if code == FAILED else "SURVIVED", mutation.name, flush=True)
    return code == FAILED


def _run(tree: Path, tests: Sequence[str]) -> int:
    """The exit code of pytest in the copy."""
    options = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider"]
    pytest = [sys.executable, "-m", "pytest", *options, *tests]
    return subprocess.run(pytest, cwd=tree, env=_environment(tree)).returncode


def _compile(tree: Path) -> None:
    build = [sys.executable, "-m", "worker.kernels.build"]
    subprocess.run(build, cwd=tree, env=_environment(tree), stdout=subprocess.DEVNULL, check=True)


def _environment(tree: Path) -> dict[str, str]:
    """Python takes the copy's packages, also in processes that tests start."""
    return {**os.environ, "PYTHONPATH": str(tree)}


if __name__ == "__main__":
    sys.exit(main())
