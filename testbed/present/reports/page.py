"""A page: sections of paragraphs, tables, plots and listings; and its HTML, a single file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


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
    """Pairs of a term and what it is."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """A table. The first ``names`` cells of each row are its heading; the others are numbers unless in ``words``."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1
    words: Sequence[int] = ()
    total: bool = False  # whether the last row is the sum of the others


@dataclass(frozen=True)
class Plot:
    """A plot as SVG text, what it shows, and what a reader who can't see it should know."""

    svg: str
    caption: str
    alternative: str


@dataclass(frozen=True)
class Listing:
    """Text to be copied as it is."""

    text: str


@dataclass(frozen=True)
class Folded:
    """Blocks that are shown when they are asked for."""

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
        """What links to it."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.title.lower()).split())


@dataclass(frozen=True)
class Page:
    """A report: title, the question, what is to be thought of it, and its sections.

    ``verdicts``: by name "valid" or "suspect", "passed" or "failed", or another word, which is neither good nor bad.
    """

    title: str
    kind: str
    question: str
    verdicts: Sequence[tuple[str, str]]
    sections: Sequence[Section] = field(default_factory=list)

    def html(self) -> str:
        """Return the page as HTML. All text is escaped; the same page gives the same HTML, byte by byte."""
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup

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
