"""How numba compiles the kernels, and the kernels that all others use: numbers, texts and CRCs."""
