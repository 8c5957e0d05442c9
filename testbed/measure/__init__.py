"""Statistics of what a run measured, and the run's verdict on itself."""
