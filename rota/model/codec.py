"""Values to plain data and back: what a journal writes and a wire carries. No code travels, only named fields."""

import dataclasses
import math
from enum import Enum
from typing import Any

import numpy as np

Plain = Any
"""None, bool, int, float, str, list or dict of these."""


class Codec:
    """Knows a closed set of dataclasses and enums by name; anything else is refused, both ways."""

    def __init__(self, *types: type) -> None:
        self._types = {kind.__name__: kind for kind in types}

    def encode(self, value: Any) -> Plain:
        if isinstance(value, Enum):
            return {"enum": self._known(type(value)), "value": value.value}
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int | np.integer):
            return int(value)
        if isinstance(value, float | np.floating):
            number = float(value)
            return number if math.isfinite(number) else {"float": repr(number)}
        if isinstance(value, np.ndarray):
            return {
                "array": value.dtype.str,
                "shape": list(value.shape),
                "data": [self.encode(x) for x in value.ravel().tolist()],
            }
        if isinstance(value, list | tuple):
            return {"tuple" if isinstance(value, tuple) else "list": [self.encode(item) for item in value]}
        if isinstance(value, dict):
            return {"dict": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        if dataclasses.is_dataclass(value):
            fields = {f.name: self.encode(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
            return {"type": self._known(type(value)), "fields": fields}
        raise TypeError(f"{type(value).__name__} cannot be written to a journal")

    def decode(self, plain: Plain) -> Any:
        if not isinstance(plain, dict):
            return plain
        if "float" in plain:
            return float(plain["float"])
        if "enum" in plain:
            return self._named(plain["enum"])(plain["value"])
        if "array" in plain:
            flat = np.array([self.decode(item) for item in plain["data"]], dtype=np.dtype(plain["array"]))
            return flat.reshape(plain["shape"])
        if "tuple" in plain:
            return tuple(self.decode(item) for item in plain["tuple"])
        if "list" in plain:
            return [self.decode(item) for item in plain["list"]]
        if "dict" in plain:
            return {self.decode(key): self.decode(item) for key, item in plain["dict"]}
        return self._named(plain["type"])(**{name: self.decode(item) for name, item in plain["fields"].items()})

    def _known(self, kind: type) -> str:
        if self._types.get(kind.__name__) is not kind:
            raise TypeError(f"{kind.__name__} is not part of this codec")
        return kind.__name__

    def _named(self, name: str) -> Any:
        if name not in self._types:
            raise ValueError(f"unknown type {name!r} in plain data")
        return self._types[name]
