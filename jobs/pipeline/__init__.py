"""The pipeline of a rebuild on an engine: scan, link, number, chain, build."""
