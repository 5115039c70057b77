"""Variables that the launcher adds to the environment of a job that can be parked."""

import os
from collections.abc import Mapping
from pathlib import Path

from rota.park.park_method import DRIVER, PRELOAD, ParkingFacts, can_sleep, choose_park_method

HOOK_FOLDER = str(Path(__file__).resolve().parent / "hook")


def parking_environment(facts: ParkingFacts, env: Mapping[str, str], hook: str = HOOK_FOLDER) -> dict[str, str]:
    """Return the variables to add to `env`; none if the job cannot be parked. `hook`: folder of the hook, or of a copy."""
    way, _ = choose_park_method(facts)
    if not can_sleep(way):
        return {}
    if way == DRIVER:
        return {"ROTA_PARK": way}
    found = {"ROTA_PARK": way, "PYTHONPATH": _in_front(hook, env.get("PYTHONPATH", ""))}
    if way == PRELOAD:
        preloaded = _in_front(facts.pages_library, facts.library) if facts.pages_library else facts.library
        found |= {
            "ROTA_PARK_LIBRARY": facts.library,
            "LD_PRELOAD": _in_front(preloaded, env.get("LD_PRELOAD", "")),
            **({"ROTA_PARK_PAGES": facts.pages_library} if facts.pages_library else {}),
            "TMS_INIT_ENABLE": "1",
            "TMS_INIT_ENABLE_CPU_BACKUP": "1",
            "TMS_RETAIN_CPU_BACKUP": "1",
        }
        if facts.library_path:  # after the job's own folders, so that its libraries come first
            found["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, (env.get("LD_LIBRARY_PATH", ""), *facts.library_path)))
    return found


def _in_front(first: str, rest: str) -> str:
    return f"{first}{os.pathsep}{rest}" if rest else first
