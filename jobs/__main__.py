"""`python -m jobs` and spark-submit's entry point; the command line itself is `jobs.cli`."""

import sys
from pathlib import Path

# Run as a file, as spark-submit does, Python looks for modules beside it first; `jobs` itself
# comes from the zip that was shipped.
here = str(Path(__file__).resolve().parent)
sys.path[:] = [place for place in sys.path if place != here]

from jobs.cli import main  # noqa: E402

sys.exit(main())
