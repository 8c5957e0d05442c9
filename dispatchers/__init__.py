"""The dispatcher agent and the dispatching policies."""
