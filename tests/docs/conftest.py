"""Fixtures shared by the tests of pages."""

from collections.abc import Iterator

import pytest

from rota.compose.registry import POLICY_REGISTRY


@pytest.fixture(autouse=True)
def no_names_but_the_built_in() -> Iterator[None]:
    """A policy that another test or page declared in this process is not there."""
    before = dict(POLICY_REGISTRY.declared)
    POLICY_REGISTRY.declared.clear()
    yield
    POLICY_REGISTRY.declared.clear()
    POLICY_REGISTRY.declared.update(before)
