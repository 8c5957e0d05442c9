"""Queues and the server agent."""
