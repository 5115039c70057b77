"""The configuration files of the commands and the Python client: which are read, and the settings of clients in them.

The values of the user's file take precedence over those of the system's file. A file can change what its reader runs, so it must
belong to that user or to root, and no other user may be able to write it.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.errors import NotYours, OptionError
from rota.folders import MAX_LINKS, open_folder, read_file, trusts

if TYPE_CHECKING:
    from rota.files.tree import TreeEntry

CONFIG_VARIABLE = "ROTA_CONFIG"
"""Environment variable with the only file to read; the null device for none."""
SYSTEM_FILE = Path("/etc/rota/config.yaml")
MAX_BYTES = 1_000_000
_INSTEAD = f"{CONFIG_VARIABLE}=FILE for another file, or {CONFIG_VARIABLE}={os.devnull} for none"


class ConfigFile(NamedTuple):
    """A configuration file that exists."""

    path: Path
    root: "TreeEntry | None"
    """The settings; None if the file has none."""
    problem: str = ""
    """Why the file is not read; empty if it is."""


def config_paths() -> tuple[Path, ...]:
    """Return the paths of the configuration files, the one with the highest precedence first."""
    if named := os.environ.get(CONFIG_VARIABLE):
        return () if named == os.devnull else (Path(named).expanduser().absolute(),)
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    if not base.is_absolute():
        try:
            base = Path("~/.config").expanduser()
        except RuntimeError:  # a user number without a name and a home directory, as in some containers
            return (SYSTEM_FILE,)
    return base / "rota" / "config.yaml", SYSTEM_FILE


def read_config() -> list[ConfigFile]:
    """Return the configuration files that exist, the one with the highest precedence first. Raise OptionError if one cannot be
    used, and NotYours if another user can change it."""
    found = []
    for path in config_paths():
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            if os.environ.get(CONFIG_VARIABLE):
                raise OptionError("there is no such file.", field=CONFIG_VARIABLE, value=str(path), hint=_INSTEAD) from None
            continue
        except OSError as problem:  # a folder on the path is closed to this user, so whether the file exists is not known
            found.append(ConfigFile(path, None, problem.strerror or str(problem)))
            continue
        found.append(ConfigFile(path, _tree(path)))
    return found


def client_setting(name: str) -> Any:
    """Return a setting of clients, from the file with the highest precedence that has it; None if no file has it."""
    for file in read_config():
        entry = file.root.mapping().get(name) if file.root is not None else None
        if entry is not None:
            return CLIENT_SETTINGS[name](entry)
    return None


def _tree(path: Path) -> "TreeEntry | None":
    text = _text(path)
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        return None
    from rota.files.tree import parse_tree  # here, because most commands find no file, and should start fast

    root = parse_tree(text, str(path), OptionError)
    root.mapping()
    return root


def _text(path: Path) -> str:
    """Return the text of a file that only this user and root can change. Links must satisfy the same rule."""
    where = str(path)
    try:
        for _ in range(MAX_LINKS):
            os.close(open_folder(path.parent, shared=True, instead=_INSTEAD))
            if not path.is_symlink():
                break
            if not trusts(path.lstat().st_uid):
                raise NotYours("is a link that another user made.", where=str(path), hint=_INSTEAD)
            path = path.parent / path.readlink()
        data = read_file(path, MAX_BYTES + 1)
    except NotYours as problem:
        hint = problem.hint if problem.hint.startswith("chmod") else _INSTEAD
        seen = problem.message if problem.where == where else f"{where} — is not read: {problem.message}"
        raise NotYours(seen, hint=hint) from None
    except OSError as problem:
        raise OptionError(f"cannot be read: {problem.strerror}.", where=where, hint=_INSTEAD) from None
    if len(data) > MAX_BYTES:
        raise OptionError(f"is more than {MAX_BYTES:,} bytes.", where=where, hint=_INSTEAD)
    from rota.files.text import decoded

    return decoded(data, where, OptionError)


def _folder(entry: "TreeEntry") -> str:
    path = Path(entry.text()).expanduser()
    if not path.is_absolute():
        raise entry.wrong("is not an absolute path.", hint=f"{entry.name}: /srv/rota, or {entry.name}: ~/rota")
    return str(path)


def _addresses(entry: "TreeEntry") -> list[str]:
    """Return one address, or several schedulers of which one is leader."""
    return [each.text() for each in entry.items()]


CLIENT_SETTINGS: Mapping[str, Callable[["TreeEntry"], Any]] = {
    "home": _folder,
    "address": _addresses,
    "token_file": _folder,
    "ca_file": _folder,
}
"""Setting of clients -> the function that reads its value."""
