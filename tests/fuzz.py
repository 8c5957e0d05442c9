"""Run the property-based tests with random seeds for some seconds: ``python tests/fuzz.py 120``.

Each round runs all of them with a seed of its own. The first failure ends the search, and its seed and the command that
repeats the round are printed. Hypothesis prints a decorator that repeats the failing example alone.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import time

TESTS = ("-m", "hypothesis and not cluster", "--hypothesis-profile=fuzz")


def main() -> int:
    """Run rounds until the time is over; return the exit status."""
    seconds = float(sys.argv[1])
    end = time.monotonic() + seconds
    rounds = 0
    while (left := end - time.monotonic()) > 0:
        seed = secrets.randbelow(2**32)
        command = [sys.executable, "-m", "pytest", "--numprocesses", "auto", *TESTS, f"--hypothesis-seed={seed}"]
        print(f"round {rounds + 1}, seed {seed}", flush=True)
        try:
            failed = subprocess.run(command, timeout=left, check=False).returncode
        except subprocess.TimeoutExpired:
            break
        if failed:
            print(f'seed {seed} fails; to repeat the round: pytest {TESTS[0]} "{TESTS[1]}" {TESTS[2]} {command[-1]}')
            return 1
        rounds += 1
    print(f"{rounds} whole rounds in {seconds:.0f} s, and no failure")
    return 0


if __name__ == "__main__":
    sys.exit(main())
