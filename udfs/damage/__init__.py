"""Tasks of damaged logs."""
