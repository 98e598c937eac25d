"""The structs of kernels.h that come from outside: on which arrays a kernel works. `library` compares their sizes."""

import ctypes


def _fields(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class ContinuationsStruct(ctypes.Structure):
    """`struct continuations`."""

    _fields_ = (
        *_fields(ctypes.c_size_t, "sentences width size count"),
        *_fields(ctypes.c_void_p, "logits factors normalizers before scores rows ids is_sure"),
    )


class RowCopies(ctypes.Structure):
    """`struct row_copies`."""

    _fields_ = (
        *_fields(ctypes.c_size_t, "parts rows heads capacity position"),
        *_fields(ctypes.c_void_p, "memory"),
        *_fields(ctypes.c_size_t, "count"),
        *_fields(ctypes.c_void_p, "to from first last"),
    )


class Layouts(ctypes.Structure):
    """`struct layouts`."""

    _fields_ = (
        *_fields(ctypes.c_size_t, "parts heads position kept_rows cached"),
        *_fields(ctypes.c_size_t, "old_rows old_capacity new_rows new_capacity"),
        *_fields(ctypes.c_void_p, "from to"),
    )


STRUCTS = (ContinuationsStruct, RowCopies, Layouts)  # in the order of library.c
