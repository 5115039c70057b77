"""How many examples a property is tried with, and which seeds random tests start from.

Three profiles, chosen by ROTA_EXAMPLES. `few`, the default, tries a third of the examples, the same in every run: it is for
`make test`. `fewest` tries a tenth of them, also the same in every run: it is for `make quick`. `many` tries all of them and
draws other examples in every run: `make test-all` uses it, and prints the seed, which it takes from the date and gives as
ROTA_SEED.
"""

import os

from hypothesis import HealthCheck, settings

PARTS = {"fewest": 1 / 10, "few": 1 / 3, "many": 1.0}
"""The part of the examples that each profile tries."""
PROFILE = os.environ.get("ROTA_EXAMPLES", "few")
FEWEST = 4 if PROFILE == "fewest" else 8
"""A property is never tried with fewer examples than this, unless it asks for fewer itself."""

SEED = int(os.environ.get("ROTA_SEED", "0"))
"""0: tests with seeds of their own start from the same ones in every run."""

if PROFILE not in PARTS:
    raise ValueError(f"ROTA_EXAMPLES={PROFILE} is not a profile. Use one of: {', '.join(PARTS)}")


def scaled(count: int, fewest: int = 1) -> int:
    """How many of `count` the profile tries, and never fewer than `fewest`."""
    return max(min(count, fewest), round(count * PARTS[PROFILE]))


def examples(count: int, *, uses_fixtures: bool = False) -> settings:
    """Settings for a property that deserves `count` examples. `uses_fixtures`: a fixture of the function serves all of them."""
    return settings(
        max_examples=scaled(count, FEWEST),
        deadline=None,
        derandomize=PROFILE != "many",
        suppress_health_check=[HealthCheck.too_slow, *([HealthCheck.function_scoped_fixture] if uses_fixtures else [])],
    )


DEFAULT = examples(100)
"""For properties that ask for no number. No property has a deadline: it would depend on how fast the machine is."""


def rotated(seed: int) -> int:
    """This seed, or another one in every run with another ROTA_SEED."""
    return seed + SEED * 10_000
