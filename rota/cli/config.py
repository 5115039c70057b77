"""`rota config`: show the settings of the configuration files, or check the files."""

import os
from typing import Annotated, Any, NamedTuple

import typer

from rota.cli import common_flags as flag
from rota.errors import OptionError

DEFAULT_HOME = "~/.rota"


class InForce(NamedTuple):
    """A setting that is in force."""

    setting: str
    """Name, such as `home` or `submit.gpus`."""
    value: Any
    source: str
    """File, environment variable, or `default`."""
    line: int | None


def config(
    what: Annotated[
        str | None, typer.Argument(metavar="[check]", help="check: only report whether the files are correct.")
    ] = None,
    output: flag.Output = "table",
) -> None:
    """Show the settings in force and where each comes from. `rota config check` checks the configuration files.

    The files are ~/.config/rota/config.yaml, then /etc/rota/config.yaml. ROTA_CONFIG names the only file to read.

    Example: rota config -o json
    """
    shaped = flag.shape(output)
    if what not in (None, "check"):
        raise OptionError("is not a part of rota config.", field="config", value=what, hint="rota config, or rota config check")
    from rota.wire.config_file import config_paths, read_config

    read = {file.path: file for file in read_config()}
    settings = _settings()
    files = []
    for path in config_paths():
        found = read.get(path)
        problem = found.problem if found is not None else "does not exist"
        files.append({"path": str(path), "read": found is not None and not problem, "problem": problem or None})
    if shaped in ("json", "csv"):
        from rota.cli.output import say

        rows = [each._asdict() for each in settings]
        say(shaped, value={"files": files, "settings": rows}, rows=rows if shaped == "csv" else None, heads=InForce._fields)
        return
    for each in files:
        typer.echo(f"{each['path']}  {'ok' if each['read'] else each['problem']}")
    if what is None:
        from rota.cli.output import say

        typer.echo("")
        say(shaped, rows=[{"setting": each.setting, "value": each.value, "from": _source(each)} for each in settings])


def _settings() -> list[InForce]:
    """Return all settings in force. Every section of the files is checked."""
    from rota.cli.config_defaults import check_names, defaults_of
    from rota.cli.main import make_app
    from rota.wire.config_file import CLIENT_SETTINGS, read_config

    found: dict[str, InForce] = {}
    sections: dict[str, None] = {}
    for file in read_config():
        top = {} if file.root is None else file.root.mapping()
        check_names(top)
        for name, entry in top.items():
            if name not in CLIENT_SETTINGS:
                sections[name] = None
            elif name not in found:
                found[name] = InForce(name, CLIENT_SETTINGS[name](entry), entry.where, entry.line)
    if home := os.environ.get("ROTA_HOME"):
        found["home"] = InForce("home", home, "$ROTA_HOME", None)
    found.setdefault("home", InForce("home", DEFAULT_HOME, "default", None))
    for name in sections:
        commands: Any = typer.main.get_command(make_app([name]))
        for each in defaults_of(commands.commands[name], name):
            key = f"{each.command} {each.flag}".replace(" ", ".")
            found[key] = InForce(key, each.value, each.entry.where, each.entry.line)
    return [found[key] for key in sorted(found, key=lambda key: ("." in key, key))]


def _source(setting: InForce) -> str:
    return setting.source if setting.line is None else f"{setting.source}:{setting.line}"
