"""The command ``testbed``: each module here registers its commands with ``testbed.cli.app.app``.

Modules that load numpy and scipy are imported in the functions that use them: at the top they would make each start,
also that of ``testbed --help``, four times as slow (0.9 s of CPU time instead of 0.2 s).
"""

from __future__ import annotations

import codecs
import io
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


#: What a terminal without Unicode shows instead of the characters of tables and messages.
PLAIN = {
    "±": "+-",
    "…": "...",
    "→": "->",
    "≤": "<=",
    "≥": ">=",
    "∞": "infinity",
    "µ": "u",
    "√": "sqrt ",
    "✔": "ok",
    "✘": "x",
    **dict(zip("─━—−×▁▂▃▄▅▆▇█", "----x.:-=+*#@", strict=True)),
}


def _in_plain_characters(error: UnicodeError) -> tuple[str, int]:
    """Return a replacement for characters that the terminal's encoding does not have."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAIN.get(character, "?") for character in error.object[error.start : error.end]), error.end


def main() -> None:
    """Run the command. Where the terminal has no Unicode, characters that it does not have are replaced."""
    codecs.register_error("plain characters", _in_plain_characters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="plain characters")
    warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
    app()
