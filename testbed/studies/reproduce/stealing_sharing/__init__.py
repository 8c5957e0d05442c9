"""Studies of the paper on work stealing and work sharing (Van Houdt 2019)."""
