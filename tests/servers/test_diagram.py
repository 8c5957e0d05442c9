from pathlib import Path

import testbed
from servers.exchange import diagram


def test_the_guide_shows_the_diagram_that_the_table_draws():
    guide = (Path(testbed.__file__).parent / "docs" / "stealing-sharing.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{diagram()}```" in guide
