"""Names that earlier versions wrote to journals. Readers translate them to the names of today."""

from collections.abc import Mapping
from typing import Any

OLD_TYPE_NAMES = {
    "Allotted": "OptimusMemory",
    "Answer": "PolicyAnswer",
    "CancelAsked": "CancelRequested",
    "Change": "PlacementChange",
    "Drawing": "SelectionRules",
    "Evolved": "OnesMemory",
    "HoldAsked": "HoldRequested",
    "Incarnation": "Attempt",
    "NodeDrained": "NodeDrainChanged",
    "Part": "InventoryItem",
    "PartState": "ProcessState",
    "Seating": "SlotMemory",
    "Standing": "QueueMemory",
    "TimedOut": "PolicyTimedOut",
    "Verdict": "AttemptEnd",
    "Woke": "TimerFired",
}

OLD_FIELD_NAMES = {"incarnation": "attempt", "incarnations": "attempts"}


def current_fields(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same fields with the names of today."""
    return {OLD_FIELD_NAMES.get(name, name): value for name, value in plain.items()}
