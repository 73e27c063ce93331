"""A page of tables and pictures. In: titles, cells, SVG texts; out: one HTML file. Called by `ingot eie`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from ingot.inspect.svg import clean

STYLE = (
    "body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:.6em 0}td,th{padding:.2em .7em;border-bottom:1px solid #ddd}"
    "td:not(:first-child),th:not(:first-child){text-align:right}td{font-variant-numeric:tabular-nums}"
    "svg{max-width:100%;height:auto}p{max-width:48em}"
)


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, what it says, a table and pictures below it; the cells are shown as they are."""

    title: str
    text: str = ""
    columns: tuple[str, ...] = ()
    rows: Sequence[Sequence[str]] = ()
    pictures: Sequence[str] = field(default=())


def page(title: str, sections: Sequence[Section]) -> str:
    """The text of the file."""
    body = "\n".join(map(_section, sections))
    head = f'<meta charset="utf-8"><title>{escape(clean(title, 200))}</title><style>{STYLE}</style>'
    heading = f"<h1>{escape(clean(title, 200))}</h1>"
    return f"<!doctype html>\n<html><head>{head}</head><body>\n{heading}\n{body}\n</body></html>\n"


def _section(s: Section) -> str:
    parts = [f"<h2>{escape(clean(s.title, 200))}</h2>"]
    if s.text:
        parts.append(f"<p>{escape(s.text)}</p>")
    if s.columns:
        parts.append(f"<table><tr>{_cells('th', s.columns)}</tr>")
        parts += [f"<tr>{_cells('td', row)}</tr>" for row in s.rows]
        parts.append("</table>")
    return "\n".join([*parts, *s.pictures])


def _cells(tag: str, texts: Sequence[str]) -> str:
    return "".join(f"<{tag}>{escape(clean(t, 200))}</{tag}>" for t in texts)
