"""Compare stores: where their logs part, which messages only one has, what else differs."""
