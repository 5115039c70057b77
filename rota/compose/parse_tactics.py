"""Parse tactics by name, each with its options: `pack`, or `pack:settle_seconds=120,least_gain=0.1`.

Commas separate both tactics and the options of one tactic. An item with `=` and without a name is another option of the tactic
before it.
"""

from collections.abc import Mapping

from rota.compose.option_syntax import ParsedName, fit
from rota.core.active_tactics import Tactics
from rota.errors import OptionError, UnknownNameError
from rota.tactics.defragment import Defragment
from rota.tactics.grow import Grow
from rota.tactics.migrate import Migrate
from rota.tactics.pack import Pack

TACTICS: Mapping[str, type] = {"pack": Pack, "grow": Grow, "defragment": Defragment, "migrate": Migrate}

HINT = "--tactics pack, or pack:settle_seconds=120,least_gain=0.1"

POSITIVE = ("settle_seconds",)
"""Options that must be more than 0."""

NONE = "none"
"""Text that switches off all tactics, including those of the policy itself."""


def make_tactics(text: str) -> Tactics:
    """Return the tactics of a text: names separated by commas, each with or without options."""
    if text.strip() == NONE:
        return Tactics()
    made = {}
    for part in _parts(text):
        spelled = ParsedName.parse(part, "tactic")
        if spelled.name not in TACTICS:
            raise UnknownNameError("tactic", spelled.name, TACTICS, hint=HINT)
        if spelled.name in made:
            raise OptionError(
                "given twice.", field="tactics", value=spelled.name, hint="give each tactic once, with all its options"
            )
        made[spelled.name] = fit(TACTICS[spelled.name], spelled.options, spelled.name, hint=HINT)
        for option in POSITIVE:
            if getattr(made[spelled.name], option, 1.0) <= 0:
                raise OptionError(
                    "must be more than 0.", field=f"{spelled.name} {option}", value=spelled.options[option], hint=HINT
                )
    return Tactics(**made)


def _parts(text: str) -> list[str]:
    """Split `pack:a=1,b=2,grow` into `pack:a=1,b=2` and `grow`."""
    parts: list[str] = []
    for item in filter(None, (each.strip() for each in text.split(","))):
        name, equals, _ = item.partition("=")
        if equals and ":" not in name:
            if not parts or ":" not in parts[-1]:
                before = f"{parts[-1]}:" if parts else "pack:"
                raise OptionError("is not a tactic.", field="tactics", value=item, hint=f"options follow a colon: {before}{item}")
            parts[-1] += f",{item}"
        else:
            parts.append(item)
    return parts
