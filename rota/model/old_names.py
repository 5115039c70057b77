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

OLD_NAMES_EVERYWHERE = {"incarnation": "attempt", "incarnations": "attempts"}
"""Old name -> name of today of fields of all types."""

OLD_FIELD_NAMES: dict[str, dict[str, str]] = {
    "ActiveJobs": {
        "barred": "unschedulable_holders",
        "orphans": "unknown_attempts",
        "unsettled": "to_reconcile",
    },
    "Attempt": {"parts": "live_nodes", "reserved": "host_memory_reserved", "verdict": "end"},
    "Beliefs": {
        "foreseen": "predicted",
        "judged": "trials_judged",
        "paces": "comparable_rates",
        "surprise": "gain_error_sum",
        "tried": "trials_begun",
    },
    "Catalogue": {"between_gb_s": "inter_node_gb_s", "beyond_gb_s": "inter_rack_gb_s", "inside_gb_s": "intra_node_gb_s"},
    "Cluster": {"between_gb_s": "inter_node_gb_s", "beyond_gb_s": "inter_rack_gb_s", "inside_gb_s": "intra_node_gb_s"},
    "Decided": {"strays": "unknown_attempt_kills"},
    "Measured": {"utilisation": "utilization"},
    "NodesReported": {"parts": "items"},
    "Plan": {"all_go_on": "stable_until_change", "overtaking": "protects_unstarted", "somebody_waits": "has_waiting_jobs"},
    "Ranking": {"blind": "type_agnostic"},
    "Rates": {"apart": "across_nodes"},
    "SchedulingCycle": {
        "all_go_on": "stable_until_change",
        "asked": "call_jobs",
        "asked_s": "called_s",
        "asked_version": "call_version",
        "dirty": "needs_policy",
        "fresh": "has_new_answer",
        "not_before_s": "retry_policy_s",
        "overtaking": "protects_unstarted",
        "replan": "needs_plan",
        "somebody_waits": "has_waiting_jobs",
        "wake_s": "timer_s",
    },
    "Settings": {
        "drawing": "selection",
        "foresees": "needs_predictions",
        "packing": "colocation",
        "parked_stay": "resume_in_place",
        "wait_for_place": "wait_for_locality",
    },
    "Shares": {"blind": "type_agnostic"},
    "State": {"knowledge": "beliefs", "machines": "nodes", "question": "cycle"},
    "Suspended": {"gib": "host_gib", "keeps": "keeps_host_memory"},
    "Trial": {"after": "colocated_rates", "before": "exclusive_rates", "hoped": "expected_gain"},
    "Variability": {"first_spread": "first_uncertainty", "spread": "uncertainty"},
}
"""Old name -> name of today of the fields of a type, by the name of the type today."""

OLD_VALUES = {"TrialVerdict": {"broken off": "aborted", "undone": "reverted"}}
"""Old value -> value of today of an enum, by the name of the enum."""

_NEVER = {"float": "inf"}
"""Infinity as plain data."""

OLD_UNKNOWN: dict[str, dict[str, Any]] = {
    "Allocated": {"policy": ""},
    "Attempt": {"setback": ""},
    "Decided": {"ticket": 0},
    "Demand": {"batch_size": 0},
    "Drain": {"reason": ""},
    "Exited": {"setback": ""},
    "GpusDrained": {"reason": ""},
    "JobSpec": {
        "batch_size": 0,
        "deadline_seconds": _NEVER,
        "epoch_steps": 0,
        "gpu_gib": 0,
        "least_gib": 0,
        "parked_gib": 0,
        "profile": "",
        "slo": _NEVER,
        "steps": _NEVER,
        "tenant": "",
    },
    "Kind": {"profile": ""},
    "Launch": {"batch_size": 0, "partner": -1},
    "PolicyAnswer": {"policy": ""},
    "PolicyFailed": {"message": ""},
    "Resize": {"batch_size": 0},
    "Resume": {"partner": -1},
    "SchedulingCycle": {"policy_fault": ""},
    "Settings": {"policy": ""},
    "Suspended": {"host_gib": 0, "setback": ""},
    "Tenants": {"reference": ""},
}
"""Old value, as plain data, of fields that are None today if they are unknown or there is none, by the name of the type."""

OLD_OPTION_NAMES = {
    "aware": ("type_aware",),
    "least_gain": ("min_gain", "min_speedup"),
    "most_gangs": ("max_gangs",),
    "most_lost": ("max_switch_fraction",),
    "most_moves": ("max_moves",),
    "packing": ("colocation",),
}
"""Old name -> names of today of an option of policies or tactics, of which each has one."""

OLD_OPTION_VALUES = {"asked": "requested"}
"""Old value -> value of today of an option of policies."""

OLD_STUDY_FIELDS = {
    "ends_every_seconds": "completion_poll_seconds",
    "jobs": "window",
    "noise": "measurement_noise",
    "profiled": "known_rates",
    "variability_learned": "learn_variability",
    "wait_for_place": "wait_for_locality",
}
"""Old name -> name of today of a field of a study, in the files of sweeps and in the configuration of homes."""


def current_fields(kind: str, plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a type with the names of today. None replaces values that meant unknown in an earlier version."""
    names = {**OLD_NAMES_EVERYWHERE, **OLD_FIELD_NAMES.get(kind, {})}
    fields = {names.get(name, name): value for name, value in plain.items()}
    for name, unknown in OLD_UNKNOWN.get(kind, {}).items():
        if name in fields and fields[name] == unknown:
            fields[name] = None
    return fields


def current_value(kind: str, value: Any) -> Any:
    """Return the value that an enum has today."""
    return OLD_VALUES.get(kind, {}).get(value, value)
