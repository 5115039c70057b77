"""Folders and files that only this user and root can change; each test with a second user needs root."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.errors import NotYours
from rota.folders import check_file, check_folder, enter_folder, make_folder, open_file, open_folder, others_write, read_file
from tests.stranger import STRANGER, as_stranger, root_only


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_a_folder_is_made_with_all_above_it_for_this_user_alone(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (tmp_path / "a", tmp_path / "a" / "b")} == {0o700}
    make_folder(tmp_path / "a" / "b")


def test_a_folder_that_others_can_look_into_will_do(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o755)
    check_folder(tmp_path / "home")


@pytest.mark.parametrize("mode", [0o777, 0o707, 0o702, 0o1777])
def test_a_folder_that_others_can_write_is_refused_with_the_command_that_mends_it(tmp_path: Path, mode: int) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(mode)
    with pytest.raises(NotYours, match=f"other users can write here .mode {mode:o}.") as problem:
        check_folder(home)
    assert problem.value.hint.startswith(f"chmod go-w {home}")
    home.chmod(mode & ~0o022)
    check_folder(home)


def test_a_folder_on_the_way_that_others_can_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open" / "home").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(NotYours) as problem:
        make_folder(tmp_path / "open" / "home")
    assert str(tmp_path / "open") in problem.value.message and "home" not in problem.value.message.partition("open")[2]
    (tmp_path / "open").chmod(0o1777)  # as /tmp is
    make_folder(tmp_path / "open" / "home")


@root_only
def test_a_group_counts_as_others_unless_it_is_the_users_own(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o770)
    home.chmod(0o770)
    check_folder(home)  # the group root of root, which has no other members
    os.chown(home, 0, STRANGER)
    with pytest.raises(NotYours, match="other users can write here"):
        check_folder(home)


def test_the_own_group_counts_as_others_if_a_list_names_further_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.folders._is_own_group", lambda gid: True)
    facts = os.stat_result((stat.S_IFDIR | 0o770, 1, 1, 1, os.geteuid(), os.getegid(), 0, 0, 0, 0))
    assert not others_write(facts, str(tmp_path))
    # An access list as the kernel keeps it: user:nobody:rwx besides owner, group and mask.
    entries = [(1, 7, 0xFFFFFFFF), (2, 7, STRANGER), (4, 7, 0xFFFFFFFF), (16, 7, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF)]
    packed = (2).to_bytes(4, "little") + b"".join(
        tag.to_bytes(2, "little") + allowed.to_bytes(2, "little") + who.to_bytes(4, "little") for tag, allowed, who in entries
    )
    try:
        os.setxattr(tmp_path, "system.posix_acl_access", packed)
    except OSError:
        pytest.skip("this file system has no access lists")
    assert others_write(facts, str(tmp_path))


def test_links_of_this_user_are_followed(tmp_path: Path) -> None:
    (tmp_path / "data" / "home").mkdir(parents=True)
    (tmp_path / "home").symlink_to("data/home")
    (tmp_path / "far").symlink_to(tmp_path / "data")
    (tmp_path / "round").symlink_to("round")
    for path in (tmp_path / "home", tmp_path / "far" / "home", tmp_path / "far" / ".." / "data" / "home"):
        found = open_folder(path)
        assert os.path.samestat(os.fstat(found), (tmp_path / "data" / "home").stat())
        os.close(found)
    make_folder(tmp_path / "far" / "new")
    assert (tmp_path / "data" / "new").is_dir()
    with pytest.raises(OSError, match="symbolic links"):
        check_folder(tmp_path / "round")


@root_only
def test_a_link_or_a_folder_that_another_user_made_is_refused(public: Path) -> None:
    shared = public / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (public / "mine").mkdir()
    assert as_stranger(lambda: ((shared / "link").symlink_to(public / "mine"), (shared / "folder").mkdir())) == 0
    with pytest.raises(NotYours, match="is a link that user nobody made") as problem:
        make_folder(shared / "link", instead="--home elsewhere")
    assert problem.value.hint == "--home elsewhere"
    with pytest.raises(NotYours, match="belongs to user nobody, not to user root"):
        make_folder(shared / "folder")
    with pytest.raises(NotYours, match="belongs to user nobody"):
        make_folder(shared / "folder" / "home")
    assert not list((shared / "folder").iterdir())


@root_only
def test_another_user_passes_through_folders_of_root_that_are_closed_to_readers(public: Path) -> None:
    (public / "homes").mkdir()
    (public / "homes").chmod(0o711)
    (public / "homes" / "nobody").mkdir()
    os.chown(public / "homes" / "nobody", STRANGER, STRANGER)
    assert as_stranger(lambda: make_folder(public / "homes" / "nobody" / ".rota")) == 0
    assert as_stranger(lambda: check_folder(public / "homes")) == 1, "a folder of root's is not this user's home"
    os.close(open_folder(public / "homes", shared=True))


def test_what_is_not_there_or_no_folder_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError) as missing:
        check_folder(tmp_path / "absent")
    assert missing.value.filename == str(tmp_path / "absent")
    with pytest.raises(NotADirectoryError) as wrong:
        make_folder(tmp_path / "file" / "below")
    assert wrong.value.filename == str(tmp_path / "file")


def test_a_process_works_in_the_folder_that_was_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    enter_folder(tmp_path)
    assert Path.cwd() == tmp_path


def test_a_file_is_read_if_it_is_a_plain_one_of_this_user(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"text")
    assert read_file(path) == b"text" and read_file(path, 2) == b"te"
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path / "link", tmp_path / "pipe", tmp_path):
        with pytest.raises(NotYours, match="is not a plain file"):
            read_file(other)
    path.chmod(0o606)
    with pytest.raises(NotYours, match="other users can write here"):
        read_file(path)
    check_file(tmp_path / "absent")
    os.close(open_file(tmp_path / "new", os.O_WRONLY | os.O_CREAT))
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


@root_only
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o600)
    os.chown(tmp_path / "file", STRANGER, STRANGER)
    with pytest.raises(NotYours, match="belongs to user nobody"):
        check_file(tmp_path / "file")
