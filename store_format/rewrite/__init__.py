"""Records at new places: which are taken, what changes in them, and where they go."""
