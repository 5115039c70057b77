"""A file of GPU use by profiles, and the resulting classes."""

from pathlib import Path

import pytest

from rota.errors import ProfileError
from rota.profiles.class_features import describe_classes, read_features

HEADER = "profile,compute,dram\n"


def write(path: Path, text: str) -> Path:
    (path / "use.csv").write_text(text)
    return path / "use.csv"


def test_features(tmp_path: Path) -> None:
    path = write(tmp_path, "dram,profile,compute\n20,gemm,90\n\n90, spmv ,5.5\n")
    assert read_features(path) == {"gemm": (90.0, 20.0), "spmv": (5.5, 90.0)}


def test_classes(tmp_path: Path) -> None:
    found = describe_classes(write(tmp_path, f"{HEADER}gemm,90,20\nvgg,88,22\nspmv,5,90\nstream,7,92\n"))
    assert [(line.name, line.profiles, line.compute, line.dram) for line in found.classes] == [
        ("A", ("gemm", "vgg"), 89.0, 21.0),
        ("B", ("spmv", "stream"), 6.0, 91.0),
    ]
    assert found.quality > 0.9


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ("", None, ""),
        (HEADER, None, ""),
        ("profile,compute\na,1\n", 1, "dram"),
        ("profile,compute,dram,gpu\na,1,1,1\n", 1, "column"),
        (f"{HEADER}a,1,1\na,2,2\n", 3, "profile"),
        (f"{HEADER},1,1\n", 2, "profile"),
        (f"{HEADER}a,101,1\n", 2, "compute"),
        (f"{HEADER}a,1,-1\n", 2, "dram"),
        (f"{HEADER}a,1,high\n", 2, "dram"),
        (f"{HEADER}a,1\n", 2, "cells"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, line: int | None, field: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ProfileError) as caught:
        read_features(path)
    assert (caught.value.line, caught.value.field, caught.value.where) == (line, field, str(path)) and caught.value.hint
