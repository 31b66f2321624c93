"""How numba compiles kernels, and the kernels that others use: numbers, texts and CRCs."""
