"""Addresses of schedulers that users give."""

import pytest

from rota.errors import OptionError
from rota.wire.find_scheduler import ADDRESS, TOKEN_FILE, find_scheduler


@pytest.fixture(autouse=True)
def without_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_FILE, raising=False)


@pytest.mark.parametrize(
    "address", ["http://gpu1.example:7070", "http://10.0.0.7:7070", "https://gpu1.example, http://gpu2.example"]
)
def test_a_token_is_never_sent_unencrypted_to_another_machine(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv(ADDRESS, address)
    with pytest.raises(OptionError, match="would send your token unencrypted") as caught:
        find_scheduler()
    assert caught.value.hint.startswith("https://")


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:7070", "http://localhost:7070", "http://[::1]:7070", "unix:/run/rota/rota.sock"]
)
def test_an_address_of_this_machine_needs_no_encryption(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv(ADDRESS, address)
    assert find_scheduler().urls == (address,)


def test_several_addresses_are_kept_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, "https://gpu1.example:7070, https://gpu2.example:7070,")
    assert find_scheduler().urls == ("https://gpu1.example:7070", "https://gpu2.example:7070")
