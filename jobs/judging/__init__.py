"""The verdict on a store's files, for check, verify and recover."""
