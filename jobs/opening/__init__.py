"""Find and open a store: make its plan, hold its lock, open it for questions or for a writer."""
