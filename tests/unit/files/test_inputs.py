"""Input files under the names of another machine."""

from pathlib import Path

import pytest

from rota.errors import InputError
from rota.files.inputs import (
    InputTable,
    absolute_input,
    input_exists,
    input_is_file,
    input_is_folder,
    inputs_in,
    read_input,
    read_through,
)
from rota.files.text import read_text


def test_a_table_has_its_files_and_their_folders_and_nothing_else(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    copies = {
        "deep/b/t.csv": str(tmp_path / "two"),
        "/data/../data/x.csv": str(tmp_path / "one"),
        "../a.csv": str(tmp_path / "one"),
    }
    with read_through(InputTable("/home/me", copies)):
        assert read_input("/home/me/deep/b/t.csv") == read_input("deep/./b/t.csv") == b"two"
        assert read_input("/data/x.csv") == read_input("/home/a.csv") == b"one"
        assert input_is_file("../a.csv") and not input_is_folder("../a.csv")
        assert input_is_folder("deep") and input_is_folder("/home/me/deep/b") and not input_is_file("deep")
        assert inputs_in("deep", "*/t.csv") == [Path("deep/b/t.csv")] and inputs_in("deep", "*.csv") == []
        assert absolute_input("deep") == "/home/me/deep"
        assert not input_exists(tmp_path / "one") and not input_exists("dee")
        with pytest.raises(InputError, match=r"deep — is a folder"):
            read_text("deep", InputError)
        with pytest.raises(InputError, match="there is no such file"):
            read_text(tmp_path / "one", InputError)
    assert read_input(tmp_path / "one") == b"one" and input_exists(tmp_path)


def test_without_a_table_names_are_files_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "t.csv").write_text("x")
    assert inputs_in(".", "*/*.csv") == [Path("a/t.csv")] and input_is_folder("a") and input_is_file("a/t.csv")
    assert absolute_input("a/../b") == str(tmp_path / "b")
