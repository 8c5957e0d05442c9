"""Settings of all tests, and the profiles of the property-based ones."""

from hypothesis import settings

# The same examples on every machine and in every run, and no failure because a machine is slow.
settings.register_profile("testbed", derandomize=True, deadline=None, database=None)
# Examples that differ from run to run (tests/fuzz.py); a failure prints how to repeat it.
settings.register_profile("fuzz", derandomize=False, deadline=None, database=None, print_blob=True)
settings.load_profile("testbed")
