"""Writes rows in the binary format of PostgreSQL's `COPY`: for arrays of numbers, much faster than its text format."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise, repeat
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from tools_search_ranking.postgres.schema import Connection

Column: TypeAlias = Sequence[bytes]
"""The fields of a column in binary form, in the order of the rows."""

SMALLINT: Final = np.dtype(">i2")
INT: Final = np.dtype(">i4")
BIGINT: Final = np.dtype(">i8")

_TYPES: Final = {SMALLINT: 21, INT: 23, BIGINT: 20}
"""The types' ids in every PostgreSQL."""

NULL: Final = b"\xff\xff\xff\xff"
"""The field that has no value."""

_START: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END: Final = b"\xff\xff"
_SIZE: Final = struct.Struct(">i")
_ARRAY: Final = struct.Struct(">iiiiii")
_EMPTY: Final = {kind: struct.pack(">iiii", 12, 0, 0, number) for kind, number in _TYPES.items()}
_AT_ONCE: Final = 1_000
"""Rows in memory at a time, besides their fields."""


def copy_rows(connection: Connection, table: sql.Identifier, columns: Sequence[Column]) -> None:
    """Write rows of all columns of a table."""
    width = struct.pack(">h", len(columns))
    statement = sql.SQL("copy {} from stdin (format binary)").format(table)
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(_START)
        for start in range(0, len(columns[0]), _AT_ONCE):
            own = [column[start : start + _AT_ONCE] for column in columns]
            copy.write(b"".join(chain.from_iterable(zip(repeat(width, len(own[0])), *own, strict=True))))
        copy.write(_END)


def integers(values: Sequence[int] | NDArray[np.int64], kind: np.dtype[np.signedinteger]) -> Column:
    """Return a column of numbers."""
    width = _SIZE.size + kind.itemsize
    encoded = _sized(values, kind)
    return [encoded[start : start + width] for start in range(0, len(encoded), width)]


def arrays(values: NDArray[np.int64], bounds: NDArray[np.int64], kind: np.dtype[np.signedinteger]) -> Column:
    """Return a column of arrays: of the values between the first bound and the second, and so on."""
    width = _SIZE.size + kind.itemsize
    encoded = _sized(values, kind)
    column: list[bytes] = []
    for start, end in pairwise(bounds.tolist()):
        count = end - start
        head = _ARRAY.pack(_ARRAY.size - 4 + count * width, 1, 0, _TYPES[kind], count, 1) if count else _EMPTY[kind]
        column.append(head + encoded[start * width : end * width])
    return column


def texts(values: Iterable[bytes | None]) -> Column:
    """Return a column of texts in UTF-8, or of bytes."""
    return [NULL if value is None else _SIZE.pack(len(value)) + value for value in values]


def _sized(values: Sequence[int] | NDArray[np.int64], kind: np.dtype[np.signedinteger]) -> bytes:
    """Return the values in binary form, each after its size."""
    fields = np.empty(len(values), [("size", INT), ("value", kind)])
    fields["size"], fields["value"] = kind.itemsize, values
    return fields.tobytes()
