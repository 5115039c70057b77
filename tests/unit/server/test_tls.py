"""TLS: who can connect, what a client checks, and renewed certificates."""

import contextlib
import socket
import ssl
import urllib.request
from pathlib import Path

import pytest
import trustme

from rota.errors import NotYours, OptionError, UnreachableError
from rota.server import handshakes
from rota.server.connections import ConnectionLimits
from rota.server.listeners import check_listen, listening
from rota.server.tls import Certificate
from rota.wire.client import Client
from tests.unit.server.standin import serve
from tests.waiting import LONG_SECONDS, until


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def files(authority: trustme.CA, folder: Path, name: str = "127.0.0.1") -> tuple[Path, Path]:
    """A certificate for a name, and its key."""
    issued = authority.issue_cert(name)
    chain, key = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    key.chmod(0o600)
    return chain, key


def test_a_client_with_the_authority_is_served_and_others_are_not(authority: trustme.CA, tmp_path: Path) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with serve(tmp_path, certificate=Certificate(*files(authority, tmp_path))) as served:
        assert served.url.startswith("https://")
        client = Client(served.url, served.token, ca_file=str(tmp_path / "ca.pem"))
        assert client.status().gpus == 6 and client.me().role == "operator"
        with pytest.raises(UnreachableError, match="certificate"):
            Client(served.url, served.token).status()
        with pytest.raises(UnreachableError):
            Client(served.url.replace("https", "http"), served.token).status()


def test_a_name_that_is_not_in_the_certificate_is_refused(authority: trustme.CA, tmp_path: Path) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    certificate = Certificate(*files(authority, tmp_path, "gpu1.example"))
    with serve(tmp_path, certificate=certificate) as served, pytest.raises(UnreachableError, match="certificate"):
        Client(served.url, served.token, ca_file=str(tmp_path / "ca.pem")).status()


def test_over_tls_a_page_of_another_site_is_kept_out_by_the_certificate_and_not_by_the_host(
    authority: trustme.CA, tmp_path: Path
) -> None:
    """A scheduler beyond loopback has names that it does not know, so over TLS it does not check them."""
    with serve(tmp_path, certificate=Certificate(*files(authority, tmp_path))) as served:
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        request = urllib.request.Request(f"{served.url}/healthz", headers={"Host": "gpu1.example"})
        assert urllib.request.urlopen(request, context=trusting, timeout=30).status == 200


def test_a_renewed_certificate_is_used_without_a_restart(authority: trustme.CA, tmp_path: Path) -> None:
    certificate = Certificate(*files(authority, tmp_path))
    renewing = trustme.CA()
    renewing.cert_pem.write_to_path(str(tmp_path / "new-ca.pem"))
    with serve(tmp_path, certificate=certificate) as served:
        client = Client(served.url, served.token, ca_file=str(tmp_path / "new-ca.pem"))
        with pytest.raises(UnreachableError):
            client.status()
        files(renewing, tmp_path)
        certificate.refresh()
        assert client.status().gpus == 6
        (tmp_path / "key.pem").write_text("half a key")
        certificate.refresh()
        assert client.status().gpus == 6, "files that do not fit together change nothing"


def test_files_that_are_not_a_certificate_and_its_key_are_refused(authority: trustme.CA, tmp_path: Path) -> None:
    chain, key = files(authority, tmp_path)
    chain.chmod(0o600)
    with pytest.raises(OptionError, match="--tls-cert"):
        Certificate(key, chain)
    with pytest.raises(OptionError, match="No such file"):
        Certificate(tmp_path / "missing.pem", key)
    key.chmod(0o640)
    with pytest.raises(OptionError, match="can be read by other users"):
        Certificate(chain, key)
    key.chmod(0o602)
    with pytest.raises(NotYours):
        Certificate(chain, key)


@pytest.mark.parametrize("address", ["0.0.0.0:7070", "10.1.2.3:7070", "gpu1.example:7070", "[::]:7070"])
def test_an_address_beyond_loopback_needs_tls(address: str) -> None:
    with pytest.raises(OptionError, match="with TLS only"):
        check_listen([address], all_users=False, tls=False)
    check_listen([address], all_users=False, tls=True)


def test_with_tls_the_owner_gets_a_socket_in_the_home(tmp_path: Path) -> None:
    with listening(["127.0.0.1:0"], tmp_path, all_users=False, tls=True) as found:
        assert [each.tls for each in found] == [True, False]
        assert found[0].url.startswith("https://127.0.0.1:")
        assert found[1].url == f"unix:{tmp_path}/rota.sock" and (tmp_path / "rota.sock").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "rota.sock").exists()


def test_a_connection_without_a_handshake_counts(authority: trustme.CA, tmp_path: Path) -> None:
    """Else anyone who reaches the port takes all files that the scheduler may open."""
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    limits = ConnectionLimits(total=16, per_peer=12, accepts=4)
    with serve(tmp_path, certificate=Certificate(*files(authority, tmp_path)), limits=limits) as served:
        lines = [socket.create_connection(("127.0.0.1", served.port), timeout=LONG_SECONDS) for _ in range(60)]
        try:
            for line in lines[:40]:
                with contextlib.suppress(ConnectionResetError):
                    assert line.recv(1) == b""
            assert len(served.server.table) <= limits.per_peer
            assert served.server.table.closed_early >= 40
            assert Client(served.url, served.token, ca_file=str(tmp_path / "ca.pem")).status().gpus == 6
        finally:
            for line in lines:
                line.close()
        until(lambda: not len(served.server.table), "all connections are forgotten")


def test_a_handshake_that_never_ends_is_given_up(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "HEADER_SECONDS", 0.3)
    with serve(tmp_path, certificate=Certificate(*files(authority, tmp_path))) as served:
        for sent in (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", served.port), timeout=LONG_SECONDS) as line:
                line.sendall(sent)
                found = b""
                with contextlib.suppress(ConnectionResetError):
                    while piece := line.recv(4096):
                        found += piece
                assert b"HTTP" not in found and b"Rota" not in found, "plain HTTP gets no answer"
        until(lambda: not len(served.server.table), "all connections are forgotten")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_versions_of_tls_are_refused(authority: trustme.CA, tmp_path: Path, version: ssl.TLSVersion) -> None:
    with serve(tmp_path, certificate=Certificate(*files(authority, tmp_path))) as served:
        old = ssl.create_default_context()
        authority.configure_trust(old)
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = old.maximum_version = version
        with socket.create_connection(("127.0.0.1", served.port), timeout=LONG_SECONDS) as line, pytest.raises(OSError):
            old.wrap_socket(line, server_hostname="127.0.0.1")
