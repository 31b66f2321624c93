"""Tasks of tables and exports."""
