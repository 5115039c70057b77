"""Format the figures and tables of `rota profile`."""

from collections.abc import Sequence


def show_table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for number, head in enumerate(heads):
        table.add_column(head, justify="left" if number < left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def short(value: float) -> str:
    """Format a number with at most three digits, so that many columns fit."""
    if value == 0:
        return "-"
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 1 else f"{value:.2g}".removeprefix("0")


def many(count: float) -> str:
    return f"{count / 1e9:.1f}B" if count >= 1e9 else f"{count / 1e6:.1f}M"


def times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
