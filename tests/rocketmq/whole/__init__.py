"""A whole store after each command: what consumers of a real broker get, each message once."""
