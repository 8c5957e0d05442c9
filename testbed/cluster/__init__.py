"""Clusters of real processes: the controller, the node and dispatcher processes, and what they tell each other."""
