"""Pages of HTML, by the templates beside this module. In: plain data; out: one self-contained file's text.

Called by `ingot eie` and `report_page`. Jinja2 is in the extra `report`. It escapes all that is no picture of
ours: names in models may hold markup, control characters, ten thousand letters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ingot.drawing.svg import clean
from ingot.errors import InputError

LIMIT = 400  # characters of one name


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, what it says, a table and pictures below it; the cells are shown as they are."""

    title: str
    text: str = ""
    columns: tuple[str, ...] = ()
    rows: Sequence[Sequence[str]] = ()
    pictures: Sequence[str] = field(default=())


def page(title: str, sections: Sequence[Section], lead: Sequence[str] = ()) -> str:
    """A page of tables and pictures, behind paragraphs that say how to read them."""
    return render("page.html", title=title, sections=sections, lead=lead)


def listing(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A page of one table, with a field that leaves the rows that hold what is typed."""
    return render("listing.html", title=title, columns=columns, rows=rows)


def render(template: str, filters: Mapping[str, Callable[[Any], str]] | None = None, **context: Any) -> str:
    """The text of a template's file. Raises InputError where Jinja2 is not installed."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise InputError("pages of HTML need Jinja2", remedy="pip install 'ingot[report]'") from None

    def printable(value: Any) -> Any:
        return clean(value, LIMIT) if type(value) is str else value

    environment = Environment(
        loader=PackageLoader("ingot.inspection"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=printable,
    )
    # Pictures come from `svg.Canvas`, which escapes what it is given.
    environment.filters.update({"svg": Markup, **(filters or {})})
    return environment.get_template(template).render(context)
