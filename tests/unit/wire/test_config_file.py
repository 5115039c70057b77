"""Which configuration files are read, and which are refused."""

import os
import tempfile
from pathlib import Path

import pytest

from rota.errors import InputError, NotYours
from rota.wire import config_file
from rota.wire.config_file import client_setting, config_paths, read_config
from rota.wire.home import home_folder
from tests.stranger import STRANGER, as_stranger, root_only


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The user's file and the system's file, neither of which exists yet."""
    tmp_path.chmod(0o755)
    mine, system = tmp_path / "xdg/rota/config.yaml", tmp_path / "etc/rota/config.yaml"
    for file in (mine, system):
        file.parent.mkdir(parents=True)
    for name in ("ROTA_CONFIG", "ROTA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(config_file, "SYSTEM_FILE", system)
    return mine, system


def test_without_files_there_are_no_settings(files: tuple[Path, Path]) -> None:
    assert config_paths() == files and read_config() == [] and client_setting("home") is None
    assert home_folder() == Path("~/.rota").expanduser()


def test_the_file_of_the_user_comes_before_that_of_the_system(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    mine, system = files
    system.write_text("home: /srv/rota\n")
    assert home_folder() == Path("/srv/rota")
    mine.write_text("# nothing yet\n")
    assert home_folder() == Path("/srv/rota")
    mine.write_text("home: ~/mine\n")
    assert home_folder() == Path("~/mine").expanduser()
    monkeypatch.setenv("ROTA_HOME", "/of/environment")
    assert home_folder() == Path("/of/environment")
    assert home_folder("/of/flag") == Path("/of/flag")


def test_a_relative_folder_of_the_environment_does_not_count(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "xdg")
    assert config_paths()[0] == Path("~/.config/rota/config.yaml").expanduser()


def test_the_environment_names_the_only_file(files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files[0].write_text("home: /mine\n")
    other = tmp_path / "other.yaml"
    other.write_text("submit: {gpus: 1}\n")
    monkeypatch.setenv("ROTA_CONFIG", str(other))
    assert config_paths() == (other,) and client_setting("home") is None
    monkeypatch.setenv("ROTA_CONFIG", os.devnull)
    assert config_paths() == () and read_config() == []
    monkeypatch.setenv("ROTA_CONFIG", str(tmp_path / "missing.yaml"))
    with pytest.raises(InputError, match=r"ROTA_CONFIG: .*missing.yaml' — there is no such file"):
        read_config()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("home: here\n", "config.yaml:1  home: 'here' — is not an absolute path"),
        ("\nhome: [a, b]\n", "config.yaml:2  home — is not text"),
        ("home: /a\nhome: /b\n", "config.yaml:2  home — is already given on line 1"),
        ("- home\n", "config.yaml:1 — is not a mapping"),
        ("home: &a /x\n", "anchors and aliases are not read"),
        ("a: !!python/object/apply:os.system [x]\n", "tags are not read"),
        ("home: /x\0\n", "must not contain NUL"),
        ("#" + "x" * config_file.MAX_BYTES, "is more than 1,000,000 bytes"),
    ],
    ids=range(8),
)
def test_a_file_that_cannot_be_used(files: tuple[Path, Path], text: str, told: str) -> None:
    files[0].write_text(text)
    with pytest.raises(InputError) as problem:
        client_setting("home")
    assert told in problem.value.message and problem.value.hint


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_file_that_others_can_write_is_refused(files: tuple[Path, Path], what: str) -> None:
    mine = files[0]
    mine.write_text("home: /x\n")
    wide = mine if what == "file" else mine.parent
    wide.chmod(0o777)
    with pytest.raises(NotYours, match="other users can write here") as problem:
        read_config()
    assert problem.value.hint == f"chmod go-w {wide}, after checking its contents"
    wide.chmod(0o700)
    assert len(read_config()) == 1


@root_only
@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_a_file_of_another_user_is_refused(files: tuple[Path, Path], tmp_path: Path, what: str) -> None:
    mine = files[0]
    if what == "link":
        (tmp_path / "target.yaml").write_text("home: /x\n")
        mine.symlink_to(tmp_path / "target.yaml")
        assert len(read_config()) == 1, "a link of this user is followed"
        os.lchown(mine, STRANGER, STRANGER)
    else:
        mine.write_text("home: /x\n")
        os.chown(mine if what == "file" else mine.parent, STRANGER, STRANGER)
    with pytest.raises(NotYours) as problem:
        read_config()
    assert problem.value.message.startswith(f"{mine} — ")
    assert "user" in problem.value.message and "ROTA_CONFIG" in problem.value.hint


@root_only
def test_every_user_reads_the_file_of_root_and_a_closed_folder_is_no_fault(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as folder:  # the folder of pytest is closed to other users
        Path(folder).chmod(0o755)
        system = Path(folder) / "config.yaml"
        system.write_text("home: /srv/rota\n")
        monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")
        monkeypatch.setattr(config_file, "SYSTEM_FILE", system)
        assert as_stranger(lambda: None if client_setting("home") == "/srv/rota" else pytest.fail("not read")) == 0
        Path(folder).chmod(0o700)
        assert as_stranger(lambda: None if read_config()[0].problem == "Permission denied" else pytest.fail("read")) == 0
        assert client_setting("home") == "/srv/rota"


def test_a_pipe_does_not_block(files: tuple[Path, Path]) -> None:
    os.mkfifo(files[0])
    with pytest.raises(NotYours, match="not a plain file"):
        read_config()
