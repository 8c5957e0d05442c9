"""Clusters that run until they are shut down: started, watched, changed and ended by other processes."""

from testbed.runs.long_running.client import Client, clusters, connect
from testbed.runs.long_running.register import LongRunningError, State

__all__ = ["Client", "LongRunningError", "State", "clusters", "connect"]
