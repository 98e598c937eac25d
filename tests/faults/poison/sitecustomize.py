"""Poison documents: on PYTHONPATH, this makes the engine die, hang or fail at a text that contains a marker.

    PYTHONPATH=tests/faults/poison kvjobs worker        ... "It rains in Arden. ((segfault))" ...

kvjobs itself has no such hook. `KVJOBS_TEST_POISON_ALL=KIND` makes every text poison, as a bad model would.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import sys

MODULE = "worker.engine.tasks.translation"


def segfault():
    import ctypes

    ctypes.string_at(0)


def exit():
    os._exit(99)


def hang():
    import time

    while True:
        time.sleep(3600)


def spin():
    """Hold the interpreter's lock and never release it."""
    import ctypes

    libc = ctypes.PyDLL(None)
    while True:
        libc.sleep(3600)


def allocate():
    """Allocate and touch more memory than the machine has."""
    import numpy

    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    numpy.ones(pages * 2, numpy.uint8)


def fail():
    raise RuntimeError("a document at which the engine fails")


KINDS = {
    "segfault": segfault,
    "exit": exit,
    "hang": hang,
    "spin": spin,
    "allocate": allocate,
    "raise": fail,
    "nan": None,  # see `poisoned`
}
MARKER = re.compile(r"\(\((" + "|".join(KINDS) + r")\)\)")


def poison(module):
    import dataclasses

    translator = module.Translator
    translate = translator.translate

    def poisoned(self, texts, options, run, *own):
        always = os.environ.get("KVJOBS_TEST_POISON_ALL")
        kinds = [always] if always else [match[1] for text in texts for match in MARKER.finditer(text)]
        for kind in kinds:
            if KINDS[kind]:
                KINDS[kind]()
        if "nan" not in kinds:
            return translate(self, texts, options, run, *own)
        decode, nan = self.decoder.decode, float("nan")

        def decode_nan(*args, **options):
            for found in decode(*args, **options):
                yield [(index, [dataclasses.replace(one, log_prob=nan) for one in best]) for index, best in found]

        outcomes, learned = [], {}
        for text in texts:  # one at a time, because a segment does not name its document
            self.decoder.decode = decode_nan if "((nan))" in text else decode
            try:
                result = translate(self, [text], options, run)
            finally:
                del self.decoder.decode
            outcomes += result.outcomes
            learned |= result.learned
        return module.Answers(outcomes, learned, run.timings)

    translator.translate = poisoned


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the engine's module as usual, and replaces its method once it is loaded."""

    def find_spec(self, name, path, target=None):
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            poison(module)

        spec.loader.exec_module = exec_module
        return spec


def _chain():
    """Run the sitecustomize that this one hides."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = [folder for folder in sys.path if os.path.abspath(folder) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


sys.meta_path.insert(0, _Finder())
_chain()
