"""`rota tenants`: show what tenants have, lend and borrow."""

import json
from typing import TYPE_CHECKING

from rota.cli import common_flags as flag
from rota.cli.screen import aligned

if TYPE_CHECKING:
    from rota.wire.rows import TenantRow

_HEADS = ("TENANT", "GUARANTEE", "CAP", "HAS", "BORROWED", "LENT", "CREDIT", "RUNNING", "WAITING", "WELFARE", "RECLAIM P99")
_WIDE = ("USERS", "MEMBERS", "MAX JOBS", "MAX JOBS OF A USER")


def tenants(home: flag.Home = None, output: flag.Output = "table") -> None:
    """Show what each tenant is guaranteed, has, lends and borrows, in GPUs.

    Example: rota tenants -o json
    """
    shaped = flag.shape(output)
    from rota.cli import job_text
    from rota.wire.client import connect

    rows = connect(home).tenants()
    if shaped == "json":
        job_text.say(json.dumps([row.to_dict() for row in rows]))
    elif shaped == "csv":
        from rota.cli.output import say

        say(
            shaped,
            rows=[
                {
                    **row.to_dict(),
                    "users": "; ".join(f"{user} {gpus:g}" for user, gpus in row.users.items()),
                    "members": None if row.members is None else "; ".join(row.members),
                }
                for row in rows
            ],
        )
    elif not rows:
        job_text.say("The scheduler has no tenants. Set some up: rota up --tenants tenants.yaml")
    else:
        for line in _table(rows, wide=shaped == "wide"):
            job_text.say(line)


def _table(rows: "list[TenantRow]", *, wide: bool) -> list[str]:
    from rota.cli import job_text

    by_usage = any(row.usage is not None for row in rows)
    heads = tuple("USAGE" if by_usage and head == "CREDIT" else head for head in _HEADS)
    cells = [(*heads, *(_WIDE if wide else ()))]
    for row in rows:
        score = row.usage if by_usage else row.credit
        cells.append(
            (
                job_text.clean(row.tenant),
                f"{row.guarantee:g}",
                _number(row.cap),
                f"{row.gpus:g}",
                f"{row.borrowed:g}",
                f"{row.lent:g}",
                "-" if score is None else f"{score:.1f} GPU-h",
                str(row.running),
                str(row.waiting),
                "-" if row.welfare is None else f"{row.welfare:.2f}",
                "-" if row.start_seconds_p99 is None else f"{row.start_seconds_p99:.1f} s",
                *(_more(row) if wide else ()),
            )
        )
    return [
        *aligned(cells),
        "RECLAIM P99: time from arrival to start of jobs within the guarantee, of which 1% took longer.",
    ]


def _more(row: "TenantRow") -> tuple[str, ...]:
    from rota.cli import job_text

    return (
        ", ".join(f"{job_text.clean(user)} {gpus:g}" for user, gpus in row.users.items()) or "-",
        "all" if row.members is None else ", ".join(job_text.clean(user) for user in row.members) or "operators only",
        "-" if row.max_jobs is None else f"{row.max_jobs:,}",
        "-" if row.user_max_jobs is None else f"{row.user_max_jobs:,}",
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
