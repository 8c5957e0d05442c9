"""Settings of all tests."""

from hypothesis import settings

# The same examples on every machine and in every run, and no failure because a machine is slow.
settings.register_profile("testbed", derandomize=True, deadline=None, database=None)
settings.load_profile("testbed")
