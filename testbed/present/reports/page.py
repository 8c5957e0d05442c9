"""A page: sections of paragraphs, tables, plots and listings, rendered as one HTML file that needs no other files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list of short paragraphs."""

    items: Sequence[str]


@dataclass(frozen=True)
class Facts:
    """Pairs of a term and its value or description."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """A table. The first ``names`` cells of each row are its heading; ``words``: indices of other cells with text."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1
    words: Sequence[int] = ()
    total: bool = False  # whether the last row is the sum of the others


@dataclass(frozen=True)
class Plot:
    """A plot as SVG text, its caption, and its text alternative for readers who can't see it."""

    svg: str
    caption: str
    alternative: str


@dataclass(frozen=True)
class Listing:
    """Text to copy verbatim."""

    text: str


@dataclass(frozen=True)
class Folded:
    """Blocks that are hidden until the reader opens them."""

    title: str
    blocks: Sequence[Block]


Block = Text | Items | Facts | Table | Plot | Listing | Folded


@dataclass(frozen=True)
class Section:
    """A part of the page with its heading."""

    title: str
    blocks: Sequence[Block]

    @property
    def anchor(self) -> str:
        """The section's identifier in links."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.title.lower()).split())


@dataclass(frozen=True)
class Page:
    """A report: its title, the question it answers, the verdicts and the sections.

    ``verdicts``: a name, and "valid" or "suspect", "passed" or "failed", or another word, which is neutral.
    """

    title: str
    kind: str
    question: str
    verdicts: Sequence[tuple[str, str]]
    sections: Sequence[Section] = field(default_factory=list)

    def html(self) -> str:
        """Return the page as HTML. All text is escaped; the same page gives the same HTML, byte by byte."""
        environment = Environment(
            loader=PackageLoader("testbed.present.reports"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters["kind"] = lambda block: type(block).__name__
        environment.filters["drawn"] = Markup
        return environment.get_template("page.html").render(page=self)


def listed(names: Sequence[str]) -> str:
    """Return names as a part of a sentence: "a, b and c"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
