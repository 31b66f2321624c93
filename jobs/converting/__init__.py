"""Write a store anew: measure its log, place and write records, carry over its configuration."""
