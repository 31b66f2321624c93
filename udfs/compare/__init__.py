"""Tasks of a comparison of two stores' logs."""
