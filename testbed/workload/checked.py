"""The base of all workload settings: structs that hold what their annotations promise, however they were made."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator

import msgspec

Number = msgspec.inspect.FloatType | msgspec.inspect.IntType


def _numbers(kind: msgspec.inspect.Type) -> Iterator[Number]:
    if isinstance(kind, msgspec.inspect.Metadata):
        yield from _numbers(kind.type)
    elif isinstance(kind, msgspec.inspect.UnionType):
        for member in kind.types:
            yield from _numbers(member)
    elif isinstance(kind, Number):
        yield kind


@functools.cache
def _bounds(cls: type[Checked]) -> tuple[tuple[str, str, Number], ...]:
    info = msgspec.inspect.type_info(cls)
    assert isinstance(info, msgspec.inspect.StructType)
    return tuple((field.name, field.encode_name, kind) for field in info.fields for kind in _numbers(field.type))


class Checked(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """A frozen struct, tagged by ``kind``, that checks its numbers against the bounds in its annotations.

    msgspec checks bounds when it decodes, but not when Python code calls the constructor, and it lets infinities
    through. Raises ValueError, which msgspec turns into a ValidationError that names the place.
    """

    def __post_init__(self) -> None:
        for name, shown, bound in _bounds(type(self)):
            value = getattr(self, name)
            if value is None:
                continue
            wanted = [
                words + f" {limit:g}"
                for words, limit, holds in (
                    ("greater than", bound.gt, operator.gt),
                    ("at least", bound.ge, operator.ge),
                    ("less than", bound.lt, operator.lt),
                    ("at most", bound.le, operator.le),
                )
                if limit is not None and not holds(value, limit)
            ]
            if not math.isfinite(value):
                wanted = ["a finite number"]
            if wanted:
                raise ValueError(f"`{shown}` must be {' and '.join(wanted)}, but is {value!r}")
