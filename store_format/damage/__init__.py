"""How reput reads on after damage: which record behind it is trusted, what replaces lost ones."""
