"""The two runtimes that drive the same agents: the virtual one (a heap) and the real-time one (trio, sockets)."""
