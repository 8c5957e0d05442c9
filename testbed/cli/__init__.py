"""The command ``testbed``: each module here registers its commands with ``testbed.cli.app.app``.

Modules that load numpy and scipy are imported in the functions that use them: at the top they would make each start,
also that of ``testbed --help``, four times as slow (0.9 s of CPU time instead of 0.2 s).
"""

from __future__ import annotations

import sys
import warnings

from testbed.cli import computing, listing, long_running, reporting, running, tracing, validating, watching
from testbed.cli.app import app

__all__ = [
    "app",
    "computing",
    "listing",
    "long_running",
    "main",
    "reporting",
    "running",
    "tracing",
    "validating",
    "watching",
]


def main() -> None:
    """Run the command."""
    warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
    app()
