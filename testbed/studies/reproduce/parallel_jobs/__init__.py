"""Studies of the paper on parallel jobs (Weng and Wang 2021)."""
