"""A driver of two nodes, for each test that wants one."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.scheduler.driver_bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with contextlib.closing(Bench(tmp_path)) as made:
        made.events()
        yield made
