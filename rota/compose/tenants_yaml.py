"""Read the operator's tenants from a YAML file: their weights, and the policy within each.

vision:                  # a tenant; jobs name theirs as a path: vision/pretraining
  weight: 2              # relative to its siblings; default 1
  policy: fairness       # or fifo; default: that of the tenant above
  tenants:
    pretraining: {weight: 3, policy: fifo}
    labs: {}
speech: {weight: 1}
"""

from pathlib import Path

from rota.errors import SpecError
from rota.files.tree import TreeEntry, read_tree
from rota.model.tenants import INNER, Tenants

EXAMPLE = "vision: {weight: 2, policy: fairness}"


def read_tenants(path: Path | str) -> Tenants:
    """Read a YAML file. Raise an error, which names the line, for an unknown name."""
    weights: dict[str, float] = {}
    policies: dict[str, str] = {}
    for name, entry in read_tree(path, SpecError, instead=EXAMPLE).mapping().items():
        _read("", name, entry, weights, policies)
    return Tenants(weights, policies)


def _read(above: str, name: str, entry: TreeEntry, weights: dict[str, float], policies: dict[str, str]) -> None:
    path = f"{above}/{name}" if above else name
    if not name or "/" in name:
        raise entry.wrong("is not the name of a tenant.", hint=EXAMPLE)
    if entry.value is None:
        weights[path] = 1.0
        return
    found = entry.fields(("weight", "policy", "tenants"))
    weights[path] = found["weight"].number(above=True) if "weight" in found else 1.0
    if "policy" in found:
        policies[path] = found["policy"].text()
        if policies[path] not in INNER:
            raise found["policy"].wrong(f"is not one of {', '.join(INNER)}.", hint="policy: fairness")
    if "tenants" in found:
        for name, child in found["tenants"].mapping().items():
            _read(path, name, child, weights, policies)
