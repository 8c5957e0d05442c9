"""What a run measured: records, statistics and the run's verdict on itself."""
