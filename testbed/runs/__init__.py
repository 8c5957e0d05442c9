"""An experiment from start to end, and the folder that keeps it."""
