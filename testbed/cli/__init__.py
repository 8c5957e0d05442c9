"""The command ``testbed``: each module here registers its commands with ``testbed.cli.app.app``."""

from __future__ import annotations

import sys
import warnings

from testbed.cli import computing, listing, reporting, running, tracing, validating, watching
from testbed.cli import long_running as standing
from testbed.cli.app import app

__all__ = [
    "app",
    "computing",
    "listing",
    "main",
    "reporting",
    "running",
    "standing",
    "tracing",
    "validating",
    "watching",
]


def main() -> None:
    """Run the command."""
    warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
    app()
