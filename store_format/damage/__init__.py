"""Past damage: which record after it is trusted, and what takes the place of a lost one."""
