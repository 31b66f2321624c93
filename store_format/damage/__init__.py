"""How reput reads on after damage: which record after it is trusted, what replaces lost records."""
