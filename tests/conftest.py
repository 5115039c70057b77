"""Tests of live schedulers come first: they mostly wait, and beside them others keep the cores busy."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "tests/live/" not in item.path.as_posix())
