"""How kernels are compiled, and what all of them stand on: numbers, texts and CRCs in bytes."""
