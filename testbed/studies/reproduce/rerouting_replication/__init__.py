"""Studies of the paper on rerouting and replication (Raaijmakers, Borst and Boxma 2020)."""
