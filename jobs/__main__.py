"""`python -m jobs` and spark-submit's entry point; the command line itself is `jobs.cli`."""

import sys

from jobs.cli import main

sys.exit(main())
