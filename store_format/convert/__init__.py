"""Records at new places: which are taken, what changes of them, and where they go."""
