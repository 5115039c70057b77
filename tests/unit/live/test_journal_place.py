"""The location of a home's journal, and where passwords are not stored."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rota.errors import JournalError, OptionError
from rota.live.journal_place import (
    PLACE_FILE,
    JournalLocation,
    PostgresLocation,
    SqliteLocation,
    find_journal,
    has_journal,
    save_journal_location,
    without_password,
)

URL = "postgresql://rota@db.example:5433/jobs?sslmode=verify-full"
SECRET = "postgresql://rota:s%2Fe%40cret@db.example:5433/jobs?sslmode=verify-full"


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_JOURNAL", raising=False)


def test_a_file_in_the_home_unless_something_else_is_said(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert find_journal(home) == SqliteLocation(home / "journal.sqlite") and not has_journal(find_journal(home))
    assert not home.exists(), "looking touches nothing"


def test_the_home_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = find_journal(tmp_path, URL)
    assert isinstance(place, PostgresLocation) and place.url == URL and find_journal(tmp_path, URL) == place
    assert isinstance(find_journal(tmp_path), SqliteLocation), "nothing is kept before a scheduler leads"
    save_journal_location(tmp_path, place)
    assert find_journal(tmp_path) == find_journal(tmp_path, URL) == place
    monkeypatch.setenv("ROTA_JOURNAL", "postgresql://elsewhere/x")
    assert find_journal(tmp_path) == place, "the variable is for new homes"
    with pytest.raises(OptionError, match=r"the journal of .* is postgresql://rota@db"):
        find_journal(tmp_path, "postgresql://elsewhere/x")
    assert find_journal(tmp_path / "other", URL) != place, "another home has another schema"


def test_a_home_with_a_file_stays_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "journal.sqlite").touch()
    with pytest.raises(OptionError, match=r"is .*journal\.sqlite"):
        find_journal(tmp_path, URL)
    monkeypatch.setenv("ROTA_JOURNAL", URL)
    assert find_journal(tmp_path) == SqliteLocation(tmp_path / "journal.sqlite")


def test_a_password_is_kept_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match="list of processes") as told:
        find_journal(tmp_path, SECRET)
    assert "cret" not in str(told.value) + told.value.hint
    with pytest.raises(OptionError, match="list of processes"):
        find_journal(tmp_path, f"{URL}&password=secret")
    monkeypatch.setenv("ROTA_JOURNAL", SECRET)
    place = find_journal(tmp_path)
    assert isinstance(place, PostgresLocation) and place.url == URL and place.password() == "s/e@cret"
    save_journal_location(tmp_path, place)
    assert "cret" not in (tmp_path / PLACE_FILE).read_text() and "cret" not in str(place) + repr(place)
    assert (tmp_path / PLACE_FILE).stat().st_mode & 0o077 == 0
    monkeypatch.setenv("ROTA_JOURNAL", SECRET.replace("db.example", "other.example"))
    assert place.password() is None, "it is the password of another database"
    monkeypatch.delenv("ROTA_JOURNAL")
    assert place.password() is None


@pytest.mark.parametrize(
    ("url", "clean", "password"),
    [
        ("postgresql://a:b@h/d", "postgresql://a@h/d", "b"),
        ("postgresql://a@h/d?password=b&sslmode=require", "postgresql://a@h/d?sslmode=require", "b"),
        ("postgresql:///d?host=/run/pg", "postgresql:///d?host=/run/pg", None),
        (
            "postgresql://a:@h1:1,h2:2/d?target_session_attrs=read-write",
            "postgresql://a@h1:1,h2:2/d?target_session_attrs=read-write",
            "",
        ),
        ("postgresql://h/d?options=-cwork_mem%3D1MB&sslpassword=x", "postgresql://h/d?options=-cwork_mem%3D1MB", None),
    ],
)
def test_addresses(url: str, clean: str, password: str | None) -> None:
    assert without_password(url) == (clean, password)
    assert without_password(clean) == (clean, None)


@pytest.mark.parametrize("wrong", ["mysql://a:geheim@h/d", "journal.sqlite", "http://[x"])
def test_what_is_no_address(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(OptionError, match="PostgreSQL") as told:
        find_journal(tmp_path, wrong)
    assert "geheim" not in str(told.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"url": URL, "schema": "public; DROP"})])
def test_a_damaged_file(tmp_path: Path, text: str) -> None:
    (tmp_path / PLACE_FILE).write_text(text)
    with pytest.raises(JournalError, match=PLACE_FILE):
        find_journal(tmp_path)


def test_schedulers_that_begin_together_have_the_same_place(tmp_path: Path) -> None:
    for number in range(20):
        home, together = tmp_path / str(number), threading.Barrier(4)

        def find(home: Path = home, together: threading.Barrier = together) -> JournalLocation:
            together.wait(60.0)
            return find_journal(home, URL)

        with ThreadPoolExecutor(4) as pool:
            places = {each.result() for each in [pool.submit(find) for _ in range(4)]}
        assert len(places) == 1 and places == {find_journal(home, URL)}
        assert [each.name for each in home.iterdir()] == ["home-id"]
