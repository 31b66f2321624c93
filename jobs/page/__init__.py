"""The page of `reput report`: what was found as sections, pictures and tables, in one HTML file."""
