"""Clusters of real processes: the controller, the node and dispatcher processes, and the messages between them."""
