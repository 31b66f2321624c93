"""Changes a store in place (`install`, `recover`), in steps that can be killed and repeated."""
