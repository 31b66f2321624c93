"""A backup repository: written by `backup`, thinned out by `forget`."""
