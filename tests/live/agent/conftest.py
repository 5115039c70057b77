from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.agent.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "home")
    try:
        yield bench
    finally:
        bench.clean()
