"""How reput reads on after damage: which record behind it is trusted, and what
replaces lost ones.
"""
