"""Which user of a machine a number is, and the folder of that user's job."""

import os
import pwd
from pathlib import Path

import pytest

from rota.agent.attempt_files import LaunchOrder
from rota.agent.job_folder import JobFolder
from rota.agent.job_user import UnknownUser, find_user
from rota.agent.messages import decode_message, encode_message
from rota.agent.others_job_folder import JOBS, place_of
from rota.agent.processes import other_user

ORDER = LaunchOrder(3, 1, 1, ("true",), {}, "/", "/log", "n1:0", 0.0, 60.0, 60.0, 1.0, uid=1234)


def test_the_agents_own_user_is_not_another_one() -> None:
    assert other_user(None) is None and other_user(os.geteuid()) is None
    assert other_user(os.geteuid() + 1) == os.geteuid() + 1


def test_a_user_has_the_groups_that_the_machine_gives_them() -> None:
    for known in pwd.getpwall()[:20]:
        user = find_user(known.pw_uid)
        assert user.uid == known.pw_uid and user.groups[0] == user.gid
        first = pwd.getpwuid(known.pw_uid)
        assert set(user.groups) == {first.pw_gid, *os.getgrouplist(first.pw_name, first.pw_gid)}


@pytest.mark.parametrize("uid", [-1, (1 << 32) - 1, 1 << 32, 1 << 70])
def test_a_number_that_would_change_nothing_is_no_user(uid: int) -> None:
    """The kernel takes -1 for: stay who you are."""
    with pytest.raises(UnknownUser, match=f"user {uid} does not exist on node"):
        find_user(uid)


def test_a_user_without_a_name_is_refused_where_a_name_is_needed() -> None:
    nameless = next(uid for uid in range(2_000_000, 2_001_000) if uid not in {each.pw_uid for each in pwd.getpwall()})
    assert find_user(nameless).groups == (nameless,) and str(find_user(nameless)) == f"user {nameless}"
    with pytest.raises(UnknownUser):
        find_user(nameless, must_have_name=True)


def test_the_user_travels_with_the_order() -> None:
    found = decode_message(encode_message(ORDER))
    assert isinstance(found, LaunchOrder) and found.uid == 1234


def test_each_attempt_has_a_place_of_its_own_by_whichever_path(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    places = {place_of(tmp_path / "run" / str(job) / str(attempt)) for job in (1, 11) for attempt in (1, 11)}
    assert len(places) == 4 and {place.parent for place in places} == {JOBS}
    assert place_of(tmp_path / "link/run/1/1") in places
    assert JobFolder(tmp_path).path == tmp_path / "job"
