"""Strings, hash codes and maps as Java has them."""
