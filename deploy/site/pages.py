"""Pages of the documentation site that are not guides: the README, the pages beside it, and the Python interface."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

import testbed

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[2]
BESIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for source, page in BESIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, "api.md", content=_interface()))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return the text with its links as they are on the site, where all pages are in one folder."""
    markdown = markdown.replace("](testbed/docs/", "](").replace("](../../", "](")
    for source, page in BESIDE.items():
        markdown = markdown.replace(f"]({source}", f"]({page}")
    return markdown


def _interface() -> str:
    """Return a page that shows the docstring of each public name of the package."""
    entries = [f"::: testbed.{name}" for name in testbed.__all__]
    return "\n\n".join(["# The Python interface", "::: testbed\n    options:\n      members: false", *entries, ""])
