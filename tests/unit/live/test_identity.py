"""A home detects whether it is a copy, by what is not copied."""

import shutil
import subprocess
from pathlib import Path

import pytest

from rota.errors import OptionError, RotaError
from rota.live import identity
from rota.live.home_id import HOME_ID, home_id
from rota.live.identity import HOME_FILE, find_original, record_home, settle_identity
from rota.live.journal_place import PLACE_FILE
from rota.wire.address import make_token


def settle(home: Path, *, adopt: bool = False, new_identity: bool = False) -> list[str]:
    said: list[str] = []
    settle_identity(home, adopt=adopt, new_identity=new_identity, say=said.append)
    if home.exists():
        record_home(home)
    return said


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    make_token(made)
    home_id(made)
    assert settle(made) == []
    return made


@pytest.fixture
def copy(home: Path, tmp_path: Path) -> Path:
    """As a backup makes it: times, modes and owners too."""
    subprocess.run(["cp", "-a", home, tmp_path / "copy"], check=True)
    return tmp_path / "copy"


def test_a_home_is_itself_when_it_starts_again(home: Path) -> None:
    assert settle(home) == [] and find_original(home) is None


def test_a_home_that_is_not_there_yet_is_no_copy(tmp_path: Path) -> None:
    assert settle(tmp_path / "home") == [] and not (tmp_path / "home").exists()


def test_a_home_that_was_renamed_is_itself_and_knows_its_new_name(home: Path, tmp_path: Path) -> None:
    home.rename(tmp_path / "elsewhere")
    assert settle(tmp_path / "elsewhere") == []
    subprocess.run(["cp", "-a", tmp_path / "elsewhere", home], check=True)
    original = find_original(home)
    assert original is not None and original.path == str(tmp_path / "elsewhere")


def test_a_copy_is_refused_and_left_as_it_is(copy: Path, home: Path) -> None:
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    with pytest.raises(RotaError, match=f"{copy} is a copy of {home}. Nothing was started or changed") as problem:
        settle(copy)
    assert f"--adopt --home {copy}" in problem.value.hint and f"--new-identity --home {copy}" in problem.value.hint
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before
    assert find_original(home) is None, "the original is no copy"


def test_a_copy_that_took_the_name_of_its_original_is_one_still(home: Path, copy: Path, tmp_path: Path) -> None:
    home.rename(tmp_path / "old")
    copy.rename(home)
    with pytest.raises(RotaError, match="is a copy of"):
        settle(home)


def test_a_copy_that_is_adopted_is_the_home_from_then_on(copy: Path, home: Path) -> None:
    before = home_id(copy)
    assert "takes over" in settle(copy, adopt=True)[0]
    assert settle(copy) == [] and home_id(copy) == before
    assert settle(copy, adopt=True) == [], "and may be again"


def test_a_copy_with_a_new_identity_has_another_id_and_another_token(copy: Path, home: Path) -> None:
    before, token = home_id(copy), make_token(copy)
    assert "new identity" in settle(copy, new_identity=True)[0]
    assert settle(copy) == [] and home_id(copy) != before and make_token(copy) != token
    assert home_id(home) == before and make_token(home) == token
    with pytest.raises(OptionError, match="is not a copy"):
        settle(copy, new_identity=True)


def test_a_home_whose_journal_is_in_postgres_gets_no_new_identity(copy: Path) -> None:
    (copy / PLACE_FILE).write_text('{"url": "postgresql://h/d", "schema": "rota_x"}')
    before = (copy / HOME_ID).read_bytes()
    with pytest.raises(OptionError, match="PostgreSQL"):
        settle(copy, new_identity=True)
    assert (copy / HOME_ID).read_bytes() == before


def test_only_one_of_the_two_can_be_asked_for(copy: Path) -> None:
    with pytest.raises(OptionError, match="--new-identity"):
        settle(copy, adopt=True, new_identity=True)


def test_the_disk_of_another_machine_is_a_copy_and_shared_storage_is_not(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_machine", lambda: "another")
    monkeypatch.setattr(identity, "is_local", lambda path: True)
    original = find_original(home)
    assert original is not None and " on " in original.where
    monkeypatch.setattr(identity, "is_local", lambda path: False)
    assert settle(home) == []


def test_a_machine_without_a_number_does_not_make_a_copy(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "is_local", lambda path: True)
    monkeypatch.setattr(identity, "_machine", lambda: "")
    assert settle(home) == []
    monkeypatch.setattr(identity, "_machine", lambda: "now it has one")
    assert settle(home) == []


def test_a_home_of_an_earlier_version_is_recorded_at_its_next_start(home: Path) -> None:
    (home / HOME_FILE).unlink()
    assert settle(home) == [] and (home / HOME_FILE).exists()


def test_a_snapshot_has_the_number_of_its_original_and_is_told_by_the_original_beside_it(
    home: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot of a file system keeps inode numbers."""
    record = identity._recorded(copy)
    assert record is not None
    same = record._replace(inode=copy.stat().st_ino)
    monkeypatch.setattr(identity, "_recorded", lambda folder: same)
    real = Path.stat
    found = real(copy)

    class Facts:
        st_ino, st_dev, st_mode = found.st_ino, 0, found.st_mode

    monkeypatch.setattr(Path, "stat", lambda self, **words: Facts if self == home else real(self, **words))
    assert find_original(copy) is not None
    shutil.rmtree(home)
    monkeypatch.undo()
    monkeypatch.setattr(identity, "_recorded", lambda folder: same)
    assert find_original(copy) is None, "renamed, as far as can be seen"
