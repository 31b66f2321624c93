"""What changes a store in place: each a list of steps that can be killed and repeated."""
