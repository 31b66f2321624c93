"""Tasks of a conversion: a log measured, and written anew."""
