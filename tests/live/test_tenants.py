"""Tenants of a live scheduler: caps hold, lent GPUs come back, and the file is kept with the home. With real processes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rota.errors import RotaError
from tests.live.harness import PATIENCE, Site, check_record, until
from tests.live.team import Team

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


MEMBERS = """
tenants:
  vision: {guarantee: 2, weight: 3, members: [ana], user_max_jobs: 3}
  speech: {guarantee: 2, members: [leo]}
  closed: {members: []}
unknown: refuse
"""


def test_members_submit_into_their_tenants_under_a_policy_that_has_the_same_file(tmp_path: Path) -> None:
    """Users with tokens, over HTTP: what the file allows, what `rota report` states of lent GPUs, and a crash."""
    file = tmp_path / "tenants.yaml"
    file.write_text(MEMBERS)
    place = Site(tmp_path, policy="hierarchical")
    try:
        place.up(tenants=str(file))
        team = Team(place, tmp_path)
        team.introduce()
        ana, leo, ops = (team.people[name] for name in ("ana", "leo", "ops"))
        assert ana.says("user", "whoami").endswith("You may submit into vision. A job that names none belongs to vision.\n")
        wide = ana.submits_spec("wide", steps=100_000, gpus=4)
        assert ana.row(wide)["tenant"] == "vision"
        until(lambda: phase(place, wide) == "running", "a lone tenant borrows")
        error = ana.refused("submit", "--tenant", "speech", "--", "true")
        assert "ana is not a member of the tenant speech; they may submit into vision." in error
        assert list(place.rows()) == [wide]
        back = leo.submits_spec("back", steps=100_000, gpus=2)
        until(lambda: phase(place, back) == "running", "what speech has lent comes back")
        report = leo.gets("report", "--by", "tenant")
        rows = {row["name"]: row for row in report["groups"]}
        assert rows["speech"]["reclaims"] == 1 == report["total"]["reclaims"] and rows["vision"]["reclaims"] is None
        assert 0.0 < rows["speech"]["reclaim_seconds_p99"] < PATIENCE
        ana.submits_spec("second", steps=100_000, gpus=1)
        assert "OVER_QUOTA: ana has 2 unfinished jobs there, this adds 2" in ana.refused("submit", "--array", "0-1", "--", "true")
        ops.submits_spec("theirs", "--tenant", "closed", steps=100_000, gpus=1)
        place.kill()

        file.write_text(MEMBERS.replace("[ana]", "[leo]"))
        place.up()
        for each in (ana, leo):
            each.env["ROTA_ADDRESS"] = team.address()
        assert "ana is not a member of a tenant" in ana.refused("submit", "--", "true")
        assert ana.row(wide)["tenant"] == "vision", "its jobs stay"
        assert "Try: tenant: speech; all: speech, vision" in leo.refused("submit", "--", "true"), "of two leo has to name one"
        leo.gets("submit", "--tenant", "vision", "--", "true")
        assert leo.gets("report", "--by", "tenant")["total"]["reclaims"] == 1
        assert tenants(place)["vision"]["members"] == ["leo"] and tenants(place)["vision"]["user_max_jobs"] == 3
        place.down()
        check_record(place, waits=0)
    finally:
        place.close()
