"""Run the property-based tests with random seeds for some seconds: ``python tests/fuzz.py 120``.

Each round runs all of them with a seed of its own. The first failure ends the search: Hypothesis prints how to repeat
the failing example, and this script the command that repeats the round. When the time is over the round under way is
interrupted, and a failure that it has found by then counts.
"""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
import time

TESTS = ("-m", "hypothesis and not cluster", "--maxfail=1", "--hypothesis-profile=fuzz")


def run_round(seed: int, seconds: float) -> int | None:
    """Run all tests with a seed; return pytest's exit status, None if the time was over before a failure."""
    command = [sys.executable, "-m", "pytest", "--numprocesses", "auto", *TESTS, f"--hypothesis-seed={seed}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as pytest:
        try:
            output, _ = pytest.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            pytest.send_signal(signal.SIGINT)
            output, _ = pytest.communicate()
            over = True
        else:
            over = False
    failed = "FAILED " in output or "ERROR " in output
    if failed:
        print(output)
    return None if over and not failed else pytest.returncode


def main() -> int:
    """Run rounds until the time is over; return the exit status."""
    seconds = float(sys.argv[1])
    end = time.monotonic() + seconds
    rounds = 0
    while (left := end - time.monotonic()) > 0:
        seed = secrets.randbelow(2**32)
        print(f"round {rounds + 1}, seed {seed}", flush=True)
        status = run_round(seed, left)
        if status:
            repeat = f'pytest {TESTS[0]} "{TESTS[1]}" {TESTS[-1]} --hypothesis-seed={seed}'
            print(f"seed {seed} fails; to repeat the round: {repeat}")
            return 1
        if status is None:
            break
        rounds += 1
    print(f"{rounds} whole rounds in {seconds:.0f} s, and no failure in the tests that were run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
