"""The quiet list: healthy stores, of which check, verify and recover must have nothing to say."""
