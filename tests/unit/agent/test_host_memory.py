"""Memory of the machine, and of a container that has less."""

from pathlib import Path

from rota.agent.host_memory import available_gib, parking_gib, total_gib

MEMINFO = "MemTotal:       131072000 kB\nMemFree:         1000000 kB\nMemAvailable:   104857600 kB\n"


def made(tmp_path: Path, membership: str, **limits: str) -> tuple[Path, Path]:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(MEMINFO)
    (proc / "self" / "cgroup").write_text(membership)
    for path, text in limits.items():
        file = groups / path.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return proc, groups


def test_of_the_machine(tmp_path: Path) -> None:
    proc, groups = made(tmp_path, "0::/user.slice\n", **{"user.slice__memory.max": "max\n"})
    assert total_gib(proc, groups) == 125.0 and available_gib(proc) == 100.0


def test_a_group_further_out_may_be_the_tightest(tmp_path: Path) -> None:
    limits = {"a__b__memory.max": f"{64 << 30}\n", "a__memory.max": f"{32 << 30}\n", "memory.max": "max\n"}
    assert total_gib(*made(tmp_path, "0::/a/b\n", **limits)) == 32.0


def test_of_the_first_version_of_control_groups(tmp_path: Path) -> None:
    limits = {"memory__docker__x__memory.limit_in_bytes": f"{16 << 30}\n", "memory__memory.limit_in_bytes": f"{2**63 - 4096}\n"}
    assert total_gib(*made(tmp_path, "9:cpu:/docker/x\n8:memory:/docker/x\n", **limits)) == 16.0


def test_not_known_where_nothing_tells(tmp_path: Path) -> None:
    assert total_gib(tmp_path, tmp_path) is None and available_gib(tmp_path) is None


def test_what_parked_jobs_may_take() -> None:
    assert (parking_gib(125.5), parking_gib(125.5, 0.25), parking_gib(None)) == (100.0, 25.0, None)


def test_this_machine_has_some() -> None:
    found, free = total_gib(), available_gib()
    assert found is not None and found > 0.1 and free is not None
