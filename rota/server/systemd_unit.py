"""Units of systemd that run a scheduler: of a user, or of the system.

Jobs are processes of the unit and outlive the scheduler, so what limits the unit limits its jobs. A unit of the system therefore
takes away what no training job needs, and leaves files, devices and the network as they are.
"""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from rota.errors import OptionError
from rota.folders import open_folder
from rota.wire.config_file import CONFIG_VARIABLE
from rota.wire.home import user_of

UNIT_FILES = "65536:524288"
"""Soft and hard limit of open files of a scheduler under systemd; its jobs may raise theirs to the hard limit."""
CONFIG_VARIABLES = (CONFIG_VARIABLE, "XDG_CONFIG_HOME")
"""Variables by which configuration files are found. A unit has the values of the process that wrote it."""
WRONG_USAGE = 2
"""Exit code of a scheduler whose flags are wrong: it would be the same after a restart."""
DROPPED = (
    *("CAP_SYS_BOOT", "CAP_SYS_TIME", "CAP_SYS_RAWIO", "CAP_LINUX_IMMUTABLE", "CAP_MAC_ADMIN", "CAP_MAC_OVERRIDE"),
    *("CAP_WAKE_ALARM", "CAP_BLOCK_SUSPEND"),
)
"""Rights of root that neither a scheduler nor a job needs. CAP_SYS_MODULE stays: the first program that uses an NVIDIA GPU may
have to load a part of its driver."""


def user_unit(home: Path, arguments: Sequence[str], folder: Path) -> str:
    """Return a unit of a user that runs `rota` with these arguments in this folder. OOMPolicy keeps the scheduler running when a
    job runs out of memory, and TasksMax does not limit the number of processes."""
    return f"""[Unit]
Description=Rota scheduler, home {_escaped(str(home))}

[Service]
{_command(arguments, folder)}
KillMode=process
Restart=on-failure
RestartSec=5
LimitNOFILE={UNIT_FILES}
TasksMax=infinity
OOMPolicy=continue

[Install]
WantedBy=default.target
"""


def system_unit(home: Path, arguments: Sequence[str], folder: Path) -> str:
    """Return a unit of the system that runs `rota` with these arguments in this folder, as the user of this process. Raise
    NotYours if that is root, and another user can change the program."""
    if os.geteuid() == 0:
        _check_program()
    return f"""[Unit]
Description=Rota scheduler, home {_escaped(str(home))}
Wants=network-online.target
After=network-online.target nvidia-persistenced.service
RequiresMountsFor={_quoted(str(home), variables=False)} {_quoted(str(folder), variables=False)}
StartLimitIntervalSec=0

[Service]
Type=exec
User={_escaped(_user())}
{_command(arguments, folder)}
KillMode=process
Restart=on-failure
RestartSec=5
RestartPreventExitStatus={WRONG_USAGE}
LimitNOFILE={UNIT_FILES}
LimitMEMLOCK=infinity
TasksMax=infinity
OOMPolicy=continue
CapabilityBoundingSet=~{" ".join(DROPPED)}

[Install]
WantedBy=multi-user.target
"""


def _command(arguments: Sequence[str], folder: Path) -> str:
    words = " ".join(_quoted(word) for word in (sys.executable, "-m", "rota", *arguments))
    given = {name: os.environ[name] for name in CONFIG_VARIABLES if os.environ.get(name)}
    if CONFIG_VARIABLE in given:
        given[CONFIG_VARIABLE] = str(Path(given[CONFIG_VARIABLE]).expanduser().absolute())
    lines = [f"ExecStart={words}", f"WorkingDirectory={_escaped(str(folder))}"]
    return "\n".join([*lines, *(f"Environment={_quoted(f'{name}={value}', variables=False)}" for name, value in given.items())])


def _user() -> str:
    """Return the name of this process's user, or its number if it has no name."""
    name = user_of(os.geteuid())
    return str(os.geteuid()) if " " in name else name


def _check_program() -> None:
    """Raise NotYours if a user other than root can change the program that root would run."""
    for folder in (Path(sys.executable).parent, Path(__file__).resolve().parents[1]):
        os.close(open_folder(folder, shared=True, instead="python3 -m venv /opt/rota, and install rota-scheduler there as root"))


def _quoted(word: str, *, variables: bool = True) -> str:
    """Quote a word for systemd. `variables` states whether `$` stands for a variable there."""
    inner = _escaped(word).replace("\\", "\\\\").replace('"', '\\"')
    inner = inner.replace("$", "$$") if variables else inner
    return inner if re.fullmatch(r"[\w./:=@,+%-]+", inner) else f'"{inner}"'


def _escaped(text: str) -> str:
    if not text.isprintable():
        raise OptionError(
            "contains a control character, which a unit cannot contain.", field="systemd", value=text, hint="another name"
        )
    return text.replace("%", "%%")
