"""How many examples a property is tried with. Two profiles, chosen by ROTA_EXAMPLES.

`few`, the default, tries a third of the examples, the same in every run: it is for `make quick` and `make test`.
`many` tries all of them and draws other examples in every run: `make test-all` uses it and prints the seed.
"""

import os

from hypothesis import HealthCheck, settings

PROFILES = ("few", "many")
PROFILE = os.environ.get("ROTA_EXAMPLES", "few")
FEW_PART = 1 / 3
FEWEST = 8
"""A property is never tried with fewer examples than this, unless it asks for fewer itself."""

if PROFILE not in PROFILES:
    raise ValueError(f"ROTA_EXAMPLES={PROFILE} is not a profile. Use one of: {', '.join(PROFILES)}")


def examples(count: int, *, uses_fixtures: bool = False) -> settings:
    """Settings for a property that deserves `count` examples. `uses_fixtures`: a fixture of the function serves all of them."""
    few = PROFILE == "few"
    return settings(
        max_examples=max(min(count, FEWEST), round(count * FEW_PART)) if few else count,
        deadline=None,
        derandomize=few,
        suppress_health_check=[HealthCheck.function_scoped_fixture] if uses_fixtures else [],
    )
