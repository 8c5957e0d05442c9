from pathlib import Path

import testbed
from testbed.core.copy_life import diagram


def test_the_guide_shows_the_life_of_a_copy_that_the_table_draws():
    guide = (Path(testbed.__file__).parent / "docs" / "rerouting-replication.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{diagram()}```" in guide
