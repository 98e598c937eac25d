"""The operators that the library gives onnxruntime, and the checks when it is loaded; onnxruntime's C API is faked."""

import ctypes
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from worker.kernels import library
from worker.kernels.files import LIBRARY
from worker.kernels.library import NoKernelsError, load

NUM_OPERATORS = 5
# Functions of the API by their number, as in ort_api.h.
CREATE_STATUS, CREATE_DOMAIN, ADD_OPERATOR, ADD_DOMAIN, RELEASE_DOMAIN, NUM_FUNCTIONS = 0, 26, 27, 28, 101, 102
POINTER = ctypes.c_void_p
GET_API = ctypes.CFUNCTYPE(POINTER, ctypes.c_uint32)


class Api:
    """Domains are numbers from 1 on."""

    def __init__(self, functions: Any, *, is_too_old: bool = False) -> None:
        self.operators: dict[int, int] = {}  # of each domain that was not released: how many it has
        self.given: list[int] = []  # how many operators the domain of each session has
        self.messages: list[str] = []
        self.before_an_operator: Callable[[], None] = lambda: None
        self.fails = False
        self._functions = functions
        self._callbacks = {
            CREATE_STATUS: ctypes.CFUNCTYPE(POINTER, ctypes.c_int, ctypes.c_char_p)(self._create_status),
            CREATE_DOMAIN: ctypes.CFUNCTYPE(POINTER, ctypes.c_char_p, ctypes.POINTER(POINTER))(self._create_domain),
            ADD_OPERATOR: ctypes.CFUNCTYPE(POINTER, POINTER, POINTER)(self._add_operator),
            ADD_DOMAIN: ctypes.CFUNCTYPE(POINTER, POINTER, POINTER)(self._add_domain),
            RELEASE_DOMAIN: ctypes.CFUNCTYPE(None, POINTER)(self._release_domain),
        }
        self._table = (POINTER * NUM_FUNCTIONS)()
        for number, callback in self._callbacks.items():
            self._table[number] = ctypes.cast(callback, POINTER)
        start = ctypes.addressof(self._table)
        self._get_api = GET_API(lambda version: None if is_too_old and version > 1 else start)
        self._base = (POINTER * 2)(ctypes.cast(self._get_api, POINTER), None)

    def register(self) -> int | None:
        """As for a new session; the status, None if there is none."""
        status: int | None = self._functions.RegisterCustomOps(None, self._base)
        return status

    def _create_status(self, _code: int, message: bytes) -> int:
        self.messages.append(message.decode())
        return 1

    def _create_domain(self, _name: bytes, domain: Any) -> None:
        domain[0] = len(self.operators) + 1
        self.operators[domain[0]] = 0

    def _add_operator(self, domain: int, _operator: int) -> int | None:
        self.before_an_operator()
        self.operators[domain] += 1
        return 7 if self.fails else None

    def _add_domain(self, _options: int, domain: int) -> None:
        self.given.append(self.operators[domain])

    def _release_domain(self, domain: int) -> None:
        del self.operators[domain]


@pytest.fixture
def functions(library_is_there: None, tmp_path: Path) -> Any:
    """A library of its own, which has made no operators yet."""
    found = ctypes.CDLL(str(shutil.copy(LIBRARY, tmp_path)))
    found.RegisterCustomOps.restype = POINTER
    return found


def test_sessions_that_open_at_once_get_all_operators(functions: Any) -> None:
    """A thread that begins while another makes the operators does not get a part of them."""
    api = Api(functions)

    def another_thread() -> None:
        api.before_an_operator = lambda: None
        assert api.register() is None

    api.before_an_operator = another_thread
    for _ in range(2):
        assert api.register() is None

    assert api.given == [NUM_OPERATORS] * 3
    assert len(api.operators) == 1, "one domain for all; the others are released"


def test_operators_that_could_not_be_made_are_made_for_the_next_session(functions: Any) -> None:
    api = Api(functions)
    api.fails = True
    assert api.register() == 7
    assert not api.operators

    api.fails = False
    assert api.register() is None
    assert api.given == [NUM_OPERATORS]


def test_an_onnxruntime_that_is_too_old_is_named(functions: Any) -> None:
    api = Api(functions, is_too_old=True)

    assert api.register() == 1
    assert "too old" in api.messages[0]


def test_a_library_whose_structs_have_another_size_is_refused(
    library_is_there: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Longer(library.STRUCTS[0]):
        _fields_ = (("more", ctypes.c_size_t),)

    monkeypatch.setattr(library, "STRUCTS", (Longer, *library.STRUCTS[1:]))

    with pytest.raises(NoKernelsError, match="other sizes"):
        load(LIBRARY)
