"""`python -m jobs` and spark-submit's entry point; the command line itself is `jobs.cli`."""

import os
import sys
from pathlib import Path

# Run as a file, as spark-submit does, Python looks for modules beside it first; `jobs` itself
# comes from the zip that was shipped.
here = str(Path(__file__).resolve().parent)
sys.path[:] = [place for place in sys.path if place != here]

from jobs.cli import main  # noqa: E402

code = main()
sys.stdout.flush()
sys.stderr.flush()
# all is closed; taking numba, pandas and PySpark apart would take 0.1 s
os._exit(code)
