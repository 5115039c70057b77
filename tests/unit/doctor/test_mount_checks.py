"""Homes and node folders on network file systems."""

from pathlib import Path

import pytest

from rota.doctor import mount_checks
from rota.doctor.diagnose import diagnose
from rota.doctor.mount_checks import check_mounts


def mounted(monkeypatch: pytest.MonkeyPatch, **kinds: str) -> None:
    """As if folders of these names, and what is below them, were on file systems of these types."""

    def file_system(path: Path) -> str:
        return next((kind for name, kind in kinds.items() if name in path.parts), "ext4")

    monkeypatch.setattr(mount_checks, "file_system", file_system)


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre", "fuse", "fuse.sshfs", "fuse.gcsfuse"])
def test_a_network_file_system_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    (tmp_path / "srv").mkdir()
    mounted(monkeypatch, srv=kind)
    (found,) = check_mounts(tmp_path / "srv" / "not" / "yet", tmp_path / "nodes")
    assert found.state == "warn" and f"is on a network file system ({kind})" in found.found and "--home" in found.next


@pytest.mark.parametrize("kind", ["ext4", "xfs", "overlay", "tmpfs", "fuseblk", "fuse.fuse-overlayfs", ""])
def test_a_local_disk_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    (tmp_path / "srv").mkdir()
    mounted(monkeypatch, srv=kind)
    assert list(check_mounts(tmp_path / "srv", tmp_path / "srv")) == []


def test_a_node_folder_counts_only_if_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted(monkeypatch, nodes="nfs4")
    assert list(check_mounts(tmp_path, tmp_path / "nodes")) == []
    (tmp_path / "nodes").mkdir()
    (found,) = check_mounts(tmp_path, tmp_path / "nodes")
    assert found.state == "warn" and "--node-dir" in found.next


def test_the_doctor_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "rota" / "nodes").mkdir(parents=True)
    mounted(monkeypatch, nodes="nfs4", home="fuse.sshfs")
    (tmp_path / "home").mkdir(mode=0o700)
    assert [each.state for each in diagnose(tmp_path / "home") if each.check == "mount"] == ["warn", "warn"]
