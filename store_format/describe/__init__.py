"""Store files as text and values: what `reput dump` shows."""
