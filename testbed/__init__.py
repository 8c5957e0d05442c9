"""A load-balancing testbed: real dispatcher and server processes, measured beside queueing theory."""
