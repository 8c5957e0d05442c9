"""Agents, messages, random streams, records: what everything else speaks of."""
