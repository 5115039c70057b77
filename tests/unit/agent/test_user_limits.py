"""Limits of users, as `limits.conf` has them."""

import os
import resource
from pathlib import Path

import pytest

from rota.agent import user_limits
from rota.agent.job_user import JobUser
from rota.agent.user_limits import UserLimits, read_limits
from tests.stranger import root_only

pytestmark = root_only

ANA = JobUser(uid=2000, gid=12, groups=(12, 8), name="ana", home="/")
"""Groups 12 and 8 are `man` and `mail` on every Linux."""
HARD = 1 << 40


@pytest.fixture(autouse=True)
def hard_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this process the same limits everywhere."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, HARD))


def limits(folder: Path, text: str, **more: str) -> UserLimits:
    (folder / "limits.conf").write_text(text)
    (folder / "limits.d").mkdir(exist_ok=True)
    for name, each in more.items():
        (folder / "limits.d" / f"{name}.conf").write_text(each)
    return read_limits(ANA, str(folder / "limits.conf"))


def test_a_user_counts_more_than_a_group_and_a_group_more_than_all(tmp_path: Path) -> None:
    found = limits(
        tmp_path, "ana - nofile 10\n@mail - nofile 20\n* - nofile 30\n@mail - nproc 20\n* - nproc 30\n* - as 1\nleo - cpu 1\n"
    )
    assert found == UserLimits(
        {resource.RLIMIT_NOFILE: (10, 10), resource.RLIMIT_NPROC: (20, 20), resource.RLIMIT_AS: (1024, 1024)}
    )


def test_of_two_alike_the_later_counts_and_files_are_read_by_name(tmp_path: Path) -> None:
    found = limits(tmp_path, "* - nofile 1\n", b="* - nofile 3 # more\n", a="# none\n\n* - nofile 2\n")
    assert found.limits == {resource.RLIMIT_NOFILE: (3, 3)}
    (tmp_path / "limits.d" / "c.txt").write_text("* - nofile 4\n")
    assert read_limits(ANA, str(tmp_path / "limits.conf")) == found


def test_soft_and_hard_are_apart_and_none_exceeds_what_the_scheduler_has(tmp_path: Path) -> None:
    found = limits(
        tmp_path,
        "* soft nofile 100\n* hard nproc 50\n* - memlock unlimited\n* soft stack unlimited\n* hard stack 8\n"
        "* hard core 4\n* - rss 99999999999999999999\n",
    )
    assert found.limits == {
        resource.RLIMIT_NOFILE: (100, HARD),
        resource.RLIMIT_NPROC: (50, 50),
        resource.RLIMIT_MEMLOCK: (HARD, HARD),
        resource.RLIMIT_STACK: (8192, 8192),
        resource.RLIMIT_CORE: (0, 4096),
        resource.RLIMIT_RSS: (HARD, HARD),
    }


@pytest.mark.parametrize(
    ("domain", "counts"),
    [
        ("2000:", True),
        ("2001:", False),
        ("1000:2000", True),
        (":2000", True),
        (":2001", False),
        ("@:8", True),
        ("@8:9", False),
        ("@12:", True),
        ("@nobody-has-this", False),
        ("Ana", False),
        ("%mail", False),
        (f"{'9' * 5000}:", False),
    ],
)
def test_a_range_of_numbers_names_users_or_groups(tmp_path: Path, domain: str, counts: bool) -> None:
    assert bool(limits(tmp_path, f"{domain} - nofile 5\n").limits) is counts


def test_a_domain_may_be_exempt_and_limits_of_logins_are_no_limits_of_jobs(tmp_path: Path) -> None:
    assert limits(tmp_path, "* - nofile 5\n@mail -\n") == UserLimits({})
    assert limits(tmp_path, "* - nofile 5\nleo -\n* - maxlogins 2\n* - nice -5\n").limits == {
        resource.RLIMIT_NOFILE: (5, 5),
        resource.RLIMIT_NICE: (25, 25),
    }


@pytest.mark.parametrize(
    "line",
    [
        "* - nofile",
        "* nofile 5",
        "* both nofile 5",
        "* - files 5",
        "* - nofile 5k",
        "* - nofile -2",
        "* - nofile ٥",
        "* - nofile 5 6",
        "* - nice 20",
        f"* - nofile {'9' * 5000}",
        "\0",
    ],
)
def test_a_broken_line_is_left_out_and_named(tmp_path: Path, line: str) -> None:
    found = limits(tmp_path, f"* - nproc 7\n{line}\n* - cpu 2\n")
    assert found.limits == {resource.RLIMIT_NPROC: (7, 7), resource.RLIMIT_CPU: (120, 120)}
    assert found.problem == f"limits of the user that cannot be read are left out: line 2 of {tmp_path}/limits.conf"


def test_a_file_that_others_can_change_does_not_count(tmp_path: Path) -> None:
    assert limits(tmp_path, "", a="* - nofile 1\n", b="* - nofile 2\n").limits == {resource.RLIMIT_NOFILE: (2, 2)}
    (tmp_path / "limits.d" / "b.conf").chmod(0o666)
    os.mkfifo(tmp_path / "limits.d" / "c.conf")
    found = read_limits(ANA, str(tmp_path / "limits.conf"))
    assert found.limits == {resource.RLIMIT_NOFILE: (1, 1)}
    assert found.problem is not None and found.problem.endswith("b.conf: others than root can change it and 1 more")


def test_no_file_is_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_limits(ANA, str(tmp_path / "none")) == UserLimits({})
    (tmp_path / "limits.conf").write_text("* - nofile 1\n")
    monkeypatch.setenv(user_limits.LIMITS_FILE, str(tmp_path / "limits.conf"))
    assert read_limits(ANA).limits == {resource.RLIMIT_NOFILE: (1, 1)}
    monkeypatch.setenv(user_limits.LIMITS_FILE, "")
    assert read_limits(ANA) == UserLimits({})
