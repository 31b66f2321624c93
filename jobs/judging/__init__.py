"""Judge a store's derived files, for check, verify and recover."""
