"""A field of a line by its name: `text`, or by its path in nested objects: `translation.en`. A field whose own name
contains the dot comes first.

Knows: names and nested objects. Does not know: formats.
"""

from collections.abc import Iterator, Mapping
from typing import Any


def take_field(values: dict[str, Any], name: str) -> Any:
    """Remove a field and return its value; None where there is none. The objects around it stay, though empty."""
    if name in values or "." not in name:
        return values.pop(name, None)
    holder, last = _holder(values, name)
    return None if holder is None else holder.pop(last, None)


def find_field(values: Mapping[str, Any], name: str) -> Any:
    """The value of a field; None where there is none."""
    if name in values or "." not in name:
        return values.get(name)
    holder, last = _holder(values, name)
    return None if holder is None else holder.get(last)


def put_back(values: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """The values with a field that `take_field` took: where it was, if the object around it is there."""
    holder, last = (None, name) if "." not in name else _holder(values, name)
    if holder is None or last in holder:  # it had this very name, beside an object
        return {name: value} | values
    holder[last] = value
    return values


def field_paths(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """All fields with their values; instead of an object, the fields in it."""
    for name, value in values.items():
        if type(value) is dict and value:
            yield from ((f"{name}.{inner}", inner_value) for inner, inner_value in value.items())
        else:
            yield name, value


def _holder(values: Any, name: str) -> tuple[dict[str, Any] | None, str]:
    """The innermost of the objects that a path names, and the name in it; None where one of them is missing."""
    *outer, last = name.split(".")
    for part in outer:
        values = values.get(part)
        if type(values) is not dict:
            return None, last
    return values, last
