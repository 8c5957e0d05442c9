"""Print the reference of all scenario keys: ``python -m testbed.scenario > testbed/docs/scenario.md``."""

from testbed.scenario import reference_markdown

print(reference_markdown(), end="")
