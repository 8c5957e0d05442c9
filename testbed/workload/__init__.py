"""What arrives: arrival processes, size distributions, job types and recorded traces."""
