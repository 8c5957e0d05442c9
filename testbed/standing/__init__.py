"""Clusters that stand until they are told to go: started, looked at, changed and ended from elsewhere."""

from testbed.standing.client import Client, clusters, connect
from testbed.standing.register import StandingError, State

__all__ = ["Client", "StandingError", "State", "clusters", "connect"]
