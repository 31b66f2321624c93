"""`python -m reput` and spark-submit's entry point; the command line itself is `reput.jobs.cli`."""

import os
import sys

# Run as a file, as spark-submit does, Python looks for modules beside it first; `reput` itself
# comes from the zip that was shipped. Run by -m, it looks in the current folder first, where
# anything may lie: that goes unless this module is from there.
_here = os.path.dirname(os.path.realpath(__file__))
if not sys.flags.safe_path and os.path.realpath(sys.path[0]) != os.path.dirname(_here):
    del sys.path[0]
sys.path[:] = [place for place in sys.path if os.path.realpath(place) != _here]

from reput.jobs.cli import command  # noqa: E402

command()
