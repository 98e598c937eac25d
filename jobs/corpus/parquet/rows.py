"""The rows of a parquet file, as JSON Lines: what `python -m jobs.corpus.parquet.rows` writes in a process of its own.

A parquet file is a program for its reader: a page of a few bytes can unpack to 2 GB, and damage has crashed readers
before. So it is read in a process whose memory is limited, which has no database and no other file open.

Standard input is the file (it is sought in), the one argument is a `RowsRequest`, as JSON. Standard output is a
line `{"rows": 3}`, then a line a row, in order. On an error the process exits with code 2, and its standard error is
the sentence for the user, as JSON.

Knows: row groups, batches, columns. Does not know: which rows are documents.
"""

import json
import os
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

import orjson

from jobs.corpus.guess import likely_name
from jobs.documents import listed, quoted, repeated
from jobs.errors import SpecError
from jobs.system.requirements import needs_pyarrow


class CopiedRows:
    """The rows of files that have not changed, numbered on from file to file. Raises SpecError where their columns
    differ, as one table cannot hold them."""

    def __init__(self, paths: Sequence[Path]) -> None:
        import pyarrow.parquet as pq

        self._paths = paths
        self.schema = pq.read_schema(paths[0])
        for path in paths[1:]:
            if not pq.read_schema(path).equals(self.schema):
                raise SpecError(
                    f"{path} has other columns than {paths[0]}, and one file cannot hold the rows of both; leave "
                    "--format original out"
                )
        self._batches = self._read()
        self._start, self._batch = 0, next(self._batches, None)

    def batch_of(self, line: int) -> tuple[int, Any]:
        """The batch that holds a row, and the number of the row in it. Lines are asked for in ascending order."""
        while self._batch is not None and line > self._start + len(self._batch):
            self._start += len(self._batch)
            self._batch = next(self._batches, None)
        assert self._batch is not None, "the digest is that of the submit"
        return line - 1 - self._start, self._batch

    def _read(self) -> Iterator[Any]:
        import pyarrow.parquet as pq

        for path in self._paths:
            with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 18) as opened:
                yield from batches(opened)


BATCH_BYTES = 1 << 24  # of values, by the sizes in the footer
BATCH_ROWS = 4_096
READ_BYTES = 1 << 26  # buffers of all columns of a row group
WRITE_BYTES = 1 << 20
DICTIONARY_BYTES = 1 << 24  # of the texts of a column in a row group, that they are kept as a dictionary
REFUSED = 2  # exit code


@dataclass(frozen=True, slots=True)
class RowsRequest:
    """What the process that reads a file is asked for: columns, and the memory that it may take."""

    id_field: str
    text_fields: Mapping[str, str]  # columns of the payload, by role
    are_texts: bool  # whether these columns have to hold texts (candidates do not)
    memory_bytes: int  # of the process

    @classmethod
    def parse(cls, text: str) -> "RowsRequest":
        return cls(**json.loads(text))

    def __str__(self) -> str:
        return json.dumps(asdict(self))


class RefusedFileError(Exception):
    """The file cannot be read as a corpus; the text is for the user."""


def main() -> None:
    """Write the rows of standard input to standard output."""
    request = RowsRequest.parse(sys.argv[1])
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (request.memory_bytes, request.memory_bytes))
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # the others reserve more than they use
    try:
        with os.fdopen(0, "rb", buffering=0) as file, os.fdopen(1, "wb", buffering=0) as target:
            for piece in json_lines(file, request):
                _write(target, piece)
    except BrokenPipeError:
        sys.exit(0)  # nobody reads any more
    except RefusedFileError as error:
        os.write(2, json.dumps(str(error)).encode())
        sys.exit(REFUSED)
    except MemoryError:
        os.write(2, json.dumps(_too_large(request)).encode())
        sys.exit(REFUSED)


def json_lines(file: BinaryIO | IO[bytes], request: RowsRequest) -> Iterator[bytes]:
    """The first line, then the lines of each batch. Raises RefusedFileError."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise RefusedFileError(needs_pyarrow()) from None
    from jobs.corpus.parquet.values import NoJsonFormError

    pa.set_io_thread_count(1)
    try:
        about = pq.read_metadata(file)
        file.seek(0)
        # Each column of a row group has such a buffer.
        buffer_size = max(1 << 12, min(1 << 20, READ_BYTES // max(1, about.num_columns)))
        opened = pq.ParquetFile(
            file,
            metadata=about,
            pre_buffer=False,
            buffer_size=buffer_size,
            read_dictionary=_with_few_texts(about),
        )
        schema = opened.schema_arrow
        _check_columns(schema, request)
        yield orjson.dumps({"rows": opened.metadata.num_rows}) + b"\n"
        num_rows = 0
        for batch in batches(opened):
            num_rows += len(batch)
            yield from _pieces(_lines(batch, schema, request))
        if num_rows != opened.metadata.num_rows:
            raise RefusedFileError(
                f"it has {num_rows:,} rows, and {opened.metadata.num_rows:,} by its footer; {_AGAIN}"
            )
    except MemoryError:
        raise RefusedFileError(_too_large(request)) from None
    except NoJsonFormError as error:
        raise RefusedFileError(f"it holds {error}, which has no JSON form; write the file without it") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError, RecursionError, ValueError) as error:
        raise RefusedFileError(_in_words(error)) from None


_AGAIN = "fetch or write the file again"


def _check_columns(schema: Any, request: RowsRequest) -> None:
    from jobs.corpus.parquet.values import NoJsonFormError, check_type, is_text

    names = list(schema.names)
    if twice := repeated(names):
        raise RefusedFileError(f"it has two columns {quoted(twice, 30)}; rename one")
    for role, field in request.text_fields.items():
        found = _type_of(schema, field)
        if found is None:
            name = likely_name([name for name in names if is_text(schema.field(name).type)], but=("id",))
            name = name or next(iter(_texts_within(schema)), None)
            hint = f"--{role}-field {name}?" if name and role == "text" else f"name it with --{role}-field"
            raise RefusedFileError(f"it has no column {quoted(field)} (it has {_listed(names)}); {hint}")
        # Of old writers, a column of bytes may be one of texts; bytes in an object are read as Base64.
        if request.are_texts and not (is_text(found) if field in names else _is_string(found)):
            texts = [*(name for name in names if is_text(schema.field(name).type)), *_texts_within(schema)]
            there = f"texts are in {_listed(texts)}; name one with --{role}-field" if texts else "it has no text"
            raise RefusedFileError(f"the column {quoted(field)} holds {found}, not text; {there}")
    found = _type_of(schema, request.id_field)
    if found is not None:
        import pyarrow.types as is_type

        inner = found.value_type if is_type.is_dictionary(found) else found
        # pandas makes doubles of integers where the column has gaps. Fractions are rejected one by one.
        is_number = is_type.is_integer(inner) or is_type.is_floating(inner)
        if not (is_text(found) or is_number or is_type.is_null(found)):
            raise RefusedFileError(
                f"the column {quoted(request.id_field)} holds {found}, and an id is a text or a whole number; name "
                f"another with --id-field (it has {_listed(names)})"
            )
    elif request.id_field != "id":
        raise RefusedFileError(
            f"it has no column {quoted(request.id_field)} (it has {_listed(names)}); name it with --id-field"
        )
    for name in names:
        try:
            check_type(schema.field(name).type)
        except NoJsonFormError as error:
            raise RefusedFileError(
                f"the column {quoted(name, 30)} holds {error}, which has no JSON form; write the file without it"
            ) from None


def _type_of(schema: Any, field: str) -> Any:
    """The type of a column, or of a field in a column of objects (`translation.en`); None where there is none."""
    import pyarrow.types as is_type

    if field in schema.names or "." not in field:
        return schema.field(field).type if field in schema.names else None
    found, *inner = field.split(".")
    data_type = schema.field(found).type if found in schema.names else None
    for name in inner:
        if data_type is None or not is_type.is_struct(data_type) or data_type.get_field_index(name) < 0:
            return None
        data_type = data_type.field(name).type
    return data_type


def _is_string(data_type: Any) -> bool:
    import pyarrow.types as is_type

    inner = data_type.value_type if is_type.is_dictionary(data_type) else data_type
    return is_type.is_string(inner) or is_type.is_large_string(inner)  # type: ignore[no-any-return]  # pyarrow has no types


def _texts_within(schema: Any) -> list[str]:
    """The paths of texts in columns of objects."""
    import pyarrow.types as is_type

    columns = [field for field in schema if is_type.is_struct(field.type)]
    inner = [(column.name, column.type.field(index)) for column in columns for index in range(column.type.num_fields)]
    return [f"{name}.{field.name}" for name, field in inner if _is_string(field.type)]


def _with_few_texts(about: Any) -> list[str]:
    """Columns whose texts are read as a dictionary. A file of a few kB may name a text of a megabyte in each of a
    million rows, and a batch would hold as many copies. (Of large columns, that dictionary itself would be large.)"""
    wide = set()
    for group in range(about.num_row_groups):
        row_group = about.row_group(group)
        for index in range(about.num_columns):
            if row_group.column(index).total_uncompressed_size > DICTIONARY_BYTES:
                wide.add(index)
    return [about.schema.column(index).path for index in range(about.num_columns) if index not in wide]


def _pieces(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Lines together, about a megabyte at a time."""
    some, num_bytes = [], 0
    for line in lines:
        some.append(line)
        num_bytes += len(line)
        if num_bytes >= WRITE_BYTES:
            yield b"".join(some)
            some, num_bytes = [], 0
    yield b"".join(some)


def _too_large(request: RowsRequest) -> str:
    return (
        f"a part of it unpacks to more than {request.memory_bytes >> 20:,} MiB of memory; write it with smaller row "
        "groups and pages, or as jsonl"
    )


def batches(opened: Any) -> Iterator[Any]:
    """All rows, in batches that are as large in each group of rows as its values allow."""
    for group in range(opened.num_row_groups):
        about = opened.metadata.row_group(group)
        per_row = max(1, about.total_byte_size // max(1, about.num_rows))
        num_rows = max(1, min(BATCH_ROWS, BATCH_BYTES // per_row))
        yield from opened.iter_batches(batch_size=num_rows, row_groups=[group], use_threads=False)


def _lines(batch: Any, schema: Any, request: RowsRequest) -> Iterator[bytes]:
    from jobs.corpus.parquet.values import BadText, column_values, default

    names = schema.names
    texts = {request.id_field, *request.text_fields.values()}
    columns = [
        column_values(column, field, as_text=field.name in texts)
        for column, field in zip(batch.columns, schema, strict=True)
    ]

    def refuse_bad_text(value: Any) -> Any:
        if isinstance(value, BadText):
            raise _BadTextError(value.data)
        return default(value)

    dumps, options = orjson.dumps, orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    for row in zip(*columns, strict=True) if columns else ():
        try:
            yield dumps(dict(zip(names, row, strict=True)), refuse_bad_text, options)
        except orjson.JSONEncodeError as error:
            if not isinstance(error.__cause__, _BadTextError):
                raise
            # Its bytes as they are: the reader of the lines rejects what is not UTF-8, and says which byte it is.
            yield error.__cause__.data.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"


class _BadTextError(Exception):
    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data


def _listed(names: Sequence[str]) -> str:
    return listed(names, 12) or "none"


def _in_words(error: Exception) -> str:
    """The error of pyarrow for a user."""
    text = " ".join(str(error).split())
    lower = text.lower()
    if "magic bytes" in lower or "smaller than the minimum" in lower or "file size is 0" in lower:
        return f"it is not a parquet file, or not all of one; {_AGAIN}, or say what it is with --format"
    if "encrypt" in lower or "decrypt" in lower:
        return "it is encrypted; write it without encryption"
    if isinstance(error, NotImplementedError):
        return f"it uses a part of parquet that pyarrow does not read ({text[:200]}); write it with other settings"
    return f"it is damaged ({text[:200]}); {_AGAIN}"


def _write(target: IO[bytes], piece: bytes) -> None:
    rest = memoryview(piece)
    while rest:
        rest = rest[target.write(rest) :]


if __name__ == "__main__":
    main()
