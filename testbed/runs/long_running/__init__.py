"""Clusters that stand until they are told to go: started, looked at, changed and ended from elsewhere."""

from testbed.runs.long_running.client import Client, clusters, connect
from testbed.runs.long_running.register import LongRunningError, State

__all__ = ["Client", "LongRunningError", "State", "clusters", "connect"]
