"""Tenants of a live scheduler: caps hold, lent GPUs come back, and the file is kept with the home. With real processes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rota.errors import RotaError
from tests.live.harness import Site, check_record, until

FILE = "tenants: {vision: {guarantee: 2, cap: 3}, speech: {guarantee: 2}}\nunknown: refuse\n"


def submit(place: Site, tenant: str, gpus: int, name: str) -> int:
    run = [sys.executable, "-S", str(place.work / "job.py"), str(place.work), "100000", "0.05", "75"]
    job = place.client().submit(
        run=run, gpus=gpus, name=name, tenant=tenant, progress=r"step (\d+)/(\d+)", checkpoint={"grace": 20, "saves": True}
    )
    return int(job.id)


def phase(place: Site, job: int) -> str:
    return place.rows()[job].phase


def tenants(place: Site) -> dict[str, dict[str, object]]:
    command = [sys.executable, "-m", "rota", "tenants", "--home", str(place.home), "-o", "json"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    return {row["tenant"]: row for row in found}


def test_caps_hold_and_lent_gpus_come_back(tmp_path: Path) -> None:
    file = tmp_path / "tenants.yaml"
    file.write_text(FILE)
    place = Site(tmp_path, policy="fifo:backfill=true")
    try:
        place.up(tenants=str(file))
        first, second = (submit(place, "vision", gpus, f"v{gpus}") for gpus in (2, 1))
        until(lambda: phase(place, first) == phase(place, second) == "running", "both run, one of them on a lent GPU")
        third = submit(place, "vision", 1, "v3")
        until(lambda: place.client().why(str(third)).reasons[0].code == "OVER_QUOTA", "the cap of vision is reached")
        row = tenants(place)["vision"]
        assert (row["gpus"], row["borrowed"], row["cap"], row["waiting"]) == (3.0, 1.0, 3.0, 1)
        owed = submit(place, "speech", 2, "s2")
        until(lambda: phase(place, owed) == "running", "what speech has lent comes back")
        until(lambda: place.client().why(str(second)).reasons[0].code == "RECLAIMED", "and the borrower knows why it waits")
        until(lambda: tenants(place)["speech"]["start_seconds_p99"] is not None, "the promise is measured")
        with pytest.raises(RotaError, match="not a tenant of this cluster"):
            submit(place, "nobody", 1, "n")
        with pytest.raises(RotaError, match="more than the cap of 3"):
            submit(place, "vision", 4, "wide")
        place.kill()

        del place.flags["--tenants"]
        file.unlink()
        place.up()
        assert phase(place, owed) in ("running", "unreachable") and tenants(place)["vision"]["cap"] == 3.0
        place.down()
        place.up(unset="tenants")
        until(lambda: place.client().why(str(third)).reasons[0].code == "NO_FREE_GPUS", "without tenants no cap holds")
        assert tenants(place) == {}
        place.down()
        check_record(place, waits=0)
    finally:
        place.close()
