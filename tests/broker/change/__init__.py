"""Steps that change a store: catch-up, expiry."""
