"""A message as a producer gives it, and the record that it becomes."""
