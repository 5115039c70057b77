"""The page of a reproduction: the claims, then the curves that they come from. It is one file without scripts that loads
nothing."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rota import __version__
from rota.papers.claims import ENOUGH, Claim
from rota.report.html import asset, security_policy, text
from rota.report.plots import Plot


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The section of one experiment: its pictures and its table."""

    key: str
    title: str
    lead: str
    claims: Sequence[Claim] = ()
    """Claims that the experiment measures."""
    plots: Sequence[Plot] = ()
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    found: Sequence[str] = ()
    """Findings, in sentences."""
    problems: Sequence[str] = ()
    """Errors of its simulations."""


def paper_page(
    title: str,
    *,
    claims: Sequence[Claim],
    sections: Sequence[Section],
    facts: Mapping[str, str],
    notes: Sequence[str] = (),
    rule: str = "",
) -> str:
    """Return the HTML page. `rule`: note on how the claims are judged."""
    style = asset("page.css") + asset("paper.css")
    parts = {
        "policy": security_policy(style),
        "style": style,
        "title": text(title),
        "finding": text(finding(claims)),
        "rule": text(
            f"A claim holds if at least {ENOUGH:.0%} of the published gain was measured; "
            f"the gain is the part beyond 1x, so 80% of 3.5x is 3x. {rule}"
        ),
        "facts": "".join(f"<div><dt>{text(name)}</dt><dd><bdi>{text(value)}</bdi></dd></div>" for name, value in facts.items()),
        "notes": _list(notes),
        "claims": "\n".join(_row(each) for each in claims),
        "links": "\n".join(f'<a href="#{text(each.key)}">{text(each.title)}</a>' for each in sections),
        "sections": "\n".join(_section(each) for each in sections),
        "version": text(__version__),
    }
    # In one pass, so that braces in a name are not replaced.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], asset("paper.html"))


def finding(claims: Sequence[Claim]) -> str:
    """Return the result in a sentence."""
    known = [each for each in claims if each.holds is not None]
    held = sum(bool(each.holds) for each in known)
    unknown = len(claims) - len(known)
    rest = f" {unknown} could not be judged." if unknown else ""
    return f"Of {len(known)} published claims, {held} hold{'s' if held == 1 else ''} here.{rest}"


def figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    # Rounded first, so that no value is -0.
    shown = f"{float(f'{value:.3g}') + 0.0:.3g}"
    return f"{shown}{unit}" if unit in ("x", "%") else f"{shown} {unit}"


def _beside(each: Claim) -> str:
    """Return a claim as a line above its curves."""
    line = f"{each.name}: the paper {figure(each.paper, each.unit)}, here {figure(each.measured, each.unit)}"
    return f'<p class="said">{_verdict(each)} {text(line)}</p>'


def _verdict(each: Claim) -> str:
    word, kind = {True: ("holds", "yes"), False: ("does not", "no"), None: ("unknown", "unknown")}[each.holds]
    return f'<span class="verdict {kind}">{word}</span>'


def _row(each: Claim) -> str:
    return (
        f'<tr><th scope="row">{text(each.name)}</th><td class="figure">{text(figure(each.paper, each.unit))}</td>'
        f'<td class="figure">{text(figure(each.measured, each.unit))}</td>'
        f'<td class="figure">{_verdict(each)}</td><td>{text(each.note)}</td></tr>'
    )


def _section(each: Section) -> str:
    pictures = "".join(f'<figure class="picture">{plot.svg}</figure>' for plot in each.plots)
    head = f'<section id="{text(each.key)}">\n<h2>{text(each.title)}</h2>\n<p class="lead">{text(each.lead)}</p>\n'
    judged = "".join(_beside(about) for about in each.claims)
    seen = "".join(f'<p class="said">{text(sentence)}</p>' for sentence in each.found)
    return f"{head}{_list(each.problems)}{judged}{seen}{pictures}{_table(each)}\n</section>"


def _table(each: Section) -> str:
    if not each.rows:
        return ""
    head = "".join(f'<th scope="col">{text(cell)}</th>' for cell in each.heads)
    body = "".join("<tr>" + "".join(f"<td><bdi>{text(cell)}</bdi></td>" for cell in row) + "</tr>" for row in each.rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    folded = "" if each.plots else " open"
    return f'<details{folded}><summary>As a table</summary><div class="scroll">{table}</div></details>'


def _list(lines: Sequence[str]) -> str:
    items = "".join(f"<li><bdi>{text(line)}</bdi></li>" for line in lines)
    return f'<ul class="notes">{items}</ul>' if lines else ""
