"""The dispatcher agent, the dispatching policies, and their registry."""
