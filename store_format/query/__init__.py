"""Answers to questions about a store, from its files: messages by key, id, position and time."""
