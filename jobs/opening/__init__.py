"""A store found and opened: its plan, held, for questions, for a writer."""
