"""Many runs as one piece of work: sweeps, validation, reproduction."""
