"""How numba compiles kernels, and the kernels that others use: numbers, texts and CRCs."""

from reput.store_format.kernels.numba_alone import without_settings_of_the_folder

with without_settings_of_the_folder():
    import numba  # noqa: F401  (before any module here imports parts of it)
