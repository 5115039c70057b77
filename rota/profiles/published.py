"""Measurements to compare the catalogue with: files of rates, and the folders that ElasticFlow and Pollux published.

The links given to the model depend on where a source was measured:

| source | nodes | between them |
|---|---|---|
| Gavel's JSON | one; for `_unconsolidated` one per GPU | 10 Gb/s, as in virtual machines of 2019 |
| ElasticFlow, `throughputs_A100/*.csv` | 8 GPUs each | 100 GB/s: eight InfiniBand adapters of 200 Gb/s, half of it used |
| ElasticFlow, `throughputs_T4/*.csv` | 4 GPUs each, AWS g4dn | 5 Gb/s, the limit of AWS for one stream |
| Pollux, `MODEL/placements.csv` | 4 GPUs each, AWS g4dn | 5 Gb/s |
| our table | one; two for gangs across nodes | the catalogue's default |

ElasticFlow's tables have iterations per second by global batch size (rows) and GPUs (columns); blank, 0 and nan are not measured.
Pollux's have a step's seconds by placement (the GPUs of each node as digits: 44 is four and four) and batch size per GPU.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rota.errors import ProfileError
from rota.files.csv_table import CsvRow, FileTable, read_table
from rota.files.inputs import input_is_folder, inputs_in
from rota.files.text import read_text
from rota.profiles.catalogue import ALIASES, Catalogue
from rota.profiles.measured_rates import is_json, read_measured

VIRTUAL_MACHINES = Catalogue(inter_node_gb_s=1.25)
INFINIBAND = Catalogue(inter_node_gb_s=100.0)
ONE_STREAM = Catalogue(inter_node_gb_s=0.625)

_FOLDER = re.compile(r"throughputs_(?P<accelerator>\w+)")
_PLACEMENT = re.compile(r"[1-9]{1,64}")
_MAX_DIGITS = 6


class Measurement(NamedTuple):
    """One rate, and the catalogue for the links over which it was measured."""

    source: str
    profile: str
    accelerator: str
    gpus: int
    nodes: int
    rate: float
    catalogue: Catalogue


def read_measurements(path: Path) -> Iterator[Measurement]:
    """Yield every rate above 0 of a file or a published folder."""
    if not input_is_folder(path):
        yield from _file(path)
        return
    tables = inputs_in(path, "throughputs_*/*.csv") + (inputs_in(path, "*.csv") if _FOLDER.fullmatch(path.name) else [])
    placements = inputs_in(path, "*/placements.csv")
    for table in tables:
        yield from _elasticflow(table)
    for table in placements:
        yield from _pollux(table)
    if not tables and not placements:
        raise ProfileError(
            "no measurements in this folder.",
            where=str(path),
            hint="a file of rates, or a folder with throughputs_A100/*.csv or MODEL/placements.csv",
        )


def _file(path: Path) -> Iterator[Measurement]:
    gavel = is_json(read_text(path, ProfileError))
    rates = read_measured(path)
    source, catalogue = path.stem.removesuffix("_throughputs"), VIRTUAL_MACHINES if gavel else Catalogue()
    for (profile, accelerator, gpus), rate in rates.table.items():
        if rate > 0:
            yield Measurement(source, profile, accelerator, gpus, 1, rate, catalogue)
    for (profile, accelerator, gpus), rate in rates.across_nodes.items():
        yield Measurement(f"{source} apart", profile, accelerator, gpus, gpus if gavel else 2, rate, catalogue)


def _elasticflow(path: Path) -> Iterator[Measurement]:
    match = _FOLDER.fullmatch(path.parent.name)
    accelerator = match["accelerator"].upper() if match is not None else ""
    # The T4 tables are made from Pollux's measurements, so their models have Pollux's names.
    own = f"elasticflow/{path.stem}" if accelerator == "A100" else path.stem
    name = own if own in ALIASES else path.stem
    per_node, catalogue = (8, INFINIBAND) if accelerator == "A100" else (4, ONE_STREAM)
    table = with_columns(path, "global_batch_size")
    counts = [column for column in table.columns if column != "global_batch_size"]
    for column in counts:
        if not column.isascii() or not column.isdecimal() or len(column) > _MAX_DIGITS or int(column) < 1:
            raise ProfileError(
                "is not a number of GPUs.",
                where=table.where,
                line=table.header_line,
                field="column",
                value=column,
                hint="1,2,4,8",
            )
    for row in table.rows():
        batch = row.whole("global_batch_size", least=1)
        for column in counts:
            rate = 0.0 if row.text(column).lower() in ("", "nan") else row.number(column)
            if rate > 0:
                gpus = int(column)
                profile = f"{name}/global{batch}"
                yield Measurement("elasticflow", profile, accelerator, gpus, -(-gpus // per_node), rate, catalogue)


def _pollux(path: Path) -> Iterator[Measurement]:
    for row in with_columns(path, "placement", "local_bsz", "step_time").rows():
        gpus = _placed(row)
        seconds = row.number("step_time")
        if seconds == 0:
            raise row.wrong("step_time", "must be more than 0.", hint="take the row out")
        profile = f"{path.parent.name}/bs{row.whole('local_bsz', least=1)}"
        yield Measurement("pollux", profile, "T4", sum(gpus), len(gpus), 1 / seconds, ONE_STREAM)


def _placed(row: CsvRow) -> list[int]:
    if not _PLACEMENT.fullmatch(row.text("placement")):
        raise row.wrong("placement", "is not one digit from 1 to 9 per node.", hint="44 is four GPUs on each of two nodes")
    return [int(digit) for digit in row.text("placement")]


def with_columns(path: Path, *columns: str) -> FileTable:
    table = read_table(path, ProfileError)
    for column in columns:
        if column not in table.columns:
            raise ProfileError(
                "needs this column.",
                where=table.where,
                line=table.header_line,
                field=column,
                hint=f"a header {','.join(columns)},...",
            )
    return table
