"""The Arrow boundary: what is given to Spark's `mapInArrow`, with schemas as constants."""
