"""Memory limits; each test runs in its own process, because a limit cannot be raised again."""

import subprocess
import sys
from pathlib import Path

from tests.messages import line_with
from tests.places import CHECKOUT


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_allocation_beyond_the_limit_raises_memory_error() -> None:
    for limit in ("limit_to_machine", "limit_to_free"):
        output = run(f"""
import os, resource
from worker.process import memory_limits
memory_limits.{limit}()
print("limited" if resource.getrlimit(resource.RLIMIT_DATA)[0] > 0 else "")
try:
    bytearray(2 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
except MemoryError:
    print("refused")
bytearray(100 << 20)
print("and the process goes on")
""")
        assert output.splitlines() == ["limited", "refused", "and the process goes on"]


def test_the_limit_follows_a_control_group_that_has_less_memory_than_the_machine(tmp_path: Path) -> None:
    for name, text in {
        "proc/self/cgroup": "0::/box",
        "proc/self/mountinfo": "31 23 0:28 / /groups rw - cgroup2 cgroup rw",
        "groups/box/memory.max": "1000000000",
        "groups/box/memory.current": "400000000",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    output = run(f"""
import resource
from pathlib import Path
from worker.process import memory_limits
memory_limits.limit_to_machine(Path({str(tmp_path)!r}))
print(resource.getrlimit(resource.RLIMIT_DATA)[0])
used = memory_limits._data_size()
memory_limits.limit_to_free(Path({str(tmp_path)!r}))
print(resource.getrlimit(resource.RLIMIT_DATA)[0] - used < 700_000_000)
""")
    assert output.splitlines() == ["1000000000", "True"]


def test_the_oom_score_makes_the_kernel_kill_a_sandbox_first() -> None:
    output = run(
        "from worker.process.memory_limits import set_oom_score; set_oom_score(1000); "
        "print(open('/proc/self/oom_score_adj').read())"
    )

    assert output == "1000"


def test_a_real_model_with_too_little_memory_gives_the_same_translations_in_smaller_calls() -> None:
    output = run("""
import logging, resource, sys
from pathlib import Path
from jobs.tasks.translate import TranslateOptions
from tools.demo.examples import lines
from worker.engine.seq2seq.open import open_seq2seq_model
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.translation import Translator
from worker.process.memory_limits import _data_size
from worker.text.translation.marian_tokenizer import MarianTokenizer
import json

logging.basicConfig(stream=sys.stdout, format="%(message)s")
texts = [json.loads(line)["text"] for line in lines(40, seed=5, references=False)]
folder = Path("worker/demo/en-zh")
model, tokenizer = open_seq2seq_model(folder), MarianTokenizer.open(folder)

def translate():
    translator = Translator(model, tokenizer)
    return translator, translator.translate(texts, TranslateOptions(beam_size=1, batch_size=256), RunContext()).outcomes

resource.setrlimit(resource.RLIMIT_DATA, (int(_data_size()) + (120 << 20), resource.RLIM_INFINITY))
_, short = translate()
resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print("equal" if [one.text for one in translate()[1]] == [one.text for one in short] else "different")
""")
    assert line_with(output, "256 sentences", "memory")
    assert output.endswith("\nequal")
