"""How kernels are compiled, and what all of them stand on: numbers, texts and CRCs in bytes."""

from reput.store_format.kernels.numba_alone import without_settings_of_the_folder

with without_settings_of_the_folder():
    import numba  # noqa: F401  (before any module here imports parts of it)
