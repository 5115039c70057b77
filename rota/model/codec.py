"""Encodes values as plain data, for journals and messages, and decodes them. Data holds named fields and never code."""

import base64
import dataclasses
import math
from collections.abc import Callable, Mapping
from enum import Enum
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from rota.model.old_names import OLD_TYPE_NAMES, current_fields, current_value

Plain = Any
"""None, bool, int, float, str, list or dict of these."""


_KINDS = "biuf"
"""NumPy kinds of arrays that can be encoded: booleans, whole numbers and floats."""


class Form(NamedTuple):
    """How values of a type become plain data, and are made from it again."""

    encode: Callable[[Any], Plain]
    decode: Callable[[Plain], Any]


class Codec:
    """Encodes a closed set of dataclasses and enums by name. It refuses all other types, both when it writes and when it
    reads."""

    def __init__(self, *types: type, forms: "Mapping[type, Form] | None" = None) -> None:
        """`forms`: types that have a form of their own as plain data."""
        self._forms = {kind.__name__: form for kind, form in (forms or {}).items()}
        self._types: dict[str, type] = {}
        for kind in types:
            if self._types.setdefault(kind.__name__, kind) is not kind:
                raise TypeError(f"two types are named {kind.__name__}: one of them needs another name")
        self._writers: dict[type, Callable[[Any], Plain]] = dict.fromkeys((NoneType, bool, int, str), _same)
        """Writer of each type that has been encoded. The journal of a large cluster takes thousands of values a second."""

    def encode(self, value: Any) -> Plain:
        writer = self._writers.get(type(value))
        if writer is None:
            writer = self._writers[type(value)] = self._writer(type(value))
        return writer(value)

    def _writer(self, kind: type) -> Callable[[Any], Plain]:
        encode = self.encode
        if issubclass(kind, Enum):
            name = self._known(kind)
            return lambda value: {"enum": name, "value": value.value}
        if issubclass(kind, str):
            return _same
        if issubclass(kind, int | np.integer):
            return int
        if issubclass(kind, float | np.floating):
            return _number
        if issubclass(kind, np.ndarray):
            return plain_array
        if issubclass(kind, list | tuple):
            word = "tuple" if issubclass(kind, tuple) else "list"
            return lambda value: {word: [encode(item) for item in value]}
        if issubclass(kind, dict):
            return lambda value: {"dict": [[encode(key), encode(item)] for key, item in value.items()]}
        if kind.__name__ in self._forms:
            name, form = kind.__name__, self._forms[kind.__name__]
            return lambda value: {"form": name, "value": form.encode(value)}
        if dataclasses.is_dataclass(kind):
            name, names = self._known(kind), [each.name for each in dataclasses.fields(kind) if each.init]
            return lambda value: {"type": name, "fields": {each: encode(getattr(value, each)) for each in names}}
        raise TypeError(f"{kind.__name__} cannot be written to a journal")

    def decode(self, plain: Plain) -> Any:
        if not isinstance(plain, dict):
            return plain
        if "float" in plain:
            return float(plain["float"])
        if "enum" in plain:
            named = self.named(plain["enum"])
            return named(current_value(named.__name__, plain["value"]))
        if "array" in plain:
            kind = np.dtype(plain["array"])
            if kind.kind not in _KINDS:
                raise ValueError(f"plain data cannot hold arrays of {plain['array']!r}")
            return np.frombuffer(base64.b64decode(plain["data"]), dtype=kind).reshape(plain["shape"]).copy()
        if "tuple" in plain:
            return tuple(self.decode(item) for item in plain["tuple"])
        if "list" in plain:
            return [self.decode(item) for item in plain["list"]]
        if "dict" in plain:
            return {self.decode(key): self.decode(item) for key, item in plain["dict"]}
        if "form" in plain:
            return self._forms[plain["form"]].decode(plain["value"])
        named = self.named(plain["type"])
        return named(**{name: self.decode(item) for name, item in current_fields(named.__name__, plain["fields"]).items()})

    def _known(self, kind: type) -> str:
        if self._types.get(kind.__name__) is not kind:
            raise TypeError(f"{kind.__name__} is not part of this codec")
        return kind.__name__

    def named(self, name: str) -> Any:
        """Return the type with this name, or with this name in an earlier version."""
        if name not in self._types:
            name = OLD_TYPE_NAMES.get(name, name)
        if name not in self._types:
            raise ValueError(f"unknown type {name!r} in plain data")
        return self._types[name]


def _same(value: Any) -> Plain:
    return value


def _number(value: float) -> Plain:
    number = float(value)
    return number if math.isfinite(number) else {"float": repr(number)}


def plain_array(value: "np.ndarray[Any, Any]") -> Plain:
    """Encode the bytes of an array, little end first. This is exact, and fast for a column of a hundred thousand jobs."""
    if value.dtype.kind not in _KINDS:
        raise TypeError(f"an array of {value.dtype} cannot be written to a journal")
    kind = value.dtype.newbyteorder("<")
    raw = np.ascontiguousarray(value, dtype=kind).tobytes()
    return {"array": kind.str, "shape": list(value.shape), "data": base64.b64encode(raw).decode("ascii")}
