"""The command ``testbed``, also as ``python -m testbed``."""

import sys


def main() -> None:
    """Run the command. Ctrl-C during its imports ends it without a traceback."""
    try:
        from testbed.cli import main as run_command
    except KeyboardInterrupt:
        sys.exit(130)
    run_command()


if __name__ == "__main__":
    main()
