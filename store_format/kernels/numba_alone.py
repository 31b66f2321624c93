"""numba without the settings of the current folder.

As it is imported, and each time it compiles, numba reads `.numba_config.yaml` from that folder, if
PyYAML is installed. Whoever writes the file would decide how kernels are compiled, and what is
printed meanwhile.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_YAML = "yaml"


@contextmanager
def without_settings_of_the_folder() -> Iterator[None]:
    """A numba imported within takes PyYAML for missing, for good, and reads no such file."""
    modules: dict[str, Any] = sys.modules
    before = {name: modules[name] for name in (_YAML,) if name in modules}
    modules[_YAML] = None  # importing it raises ImportError
    warnings.filterwarnings("ignore", "A Numba config file is found", UserWarning)
    try:
        yield
    finally:
        del modules[_YAML]
        modules.update(before)
