"""``python -m testbed`` is the command ``testbed``."""

from testbed.cli import main

main()
