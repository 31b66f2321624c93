#!/usr/bin/env bash
# Makes .venv from requirements/*.lock, on a machine that has Python 3.11 to 3.13 and nothing
# else prepared. Safe to call again: it does nothing where the environment is up to date, and
# begins anew where the lock files changed or an earlier run was interrupted.
#
#   REPUT_PYTHON  the Python to use (default: the first fitting one on PATH)
#   REPUT_CACHE   where downloads are kept (default: ~/.cache/reput)
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${REPUT_CACHE:-${HOME:?}/.cache/reput}
# Compiled code is kept there, and used only if nobody else may write to it: whatever the umask, and
# also where an older run of this has made the folders.
(umask 022 && mkdir -p "$cache")
for folder in "$cache" "$cache/kernels" "$cache"/kernels/*; do
    if [ -O "$folder" ] && [ ! -L "$folder" ]; then chmod go-w "$folder"; fi
done
export PIP_CACHE_DIR="$cache/pip" PIP_DISABLE_PIP_VERSION_CHECK=1

# Two makes at once (an editor's and a terminal's) must not build over each other.
if command -v flock >/dev/null && [ -z "${REPUT_ENV_LOCKED:-}" ]; then
    REPUT_ENV_LOCKED=1 exec flock .venv.lock "$0" "$@"
fi

say() { printf 'make env: %s\n' "$*" >&2; }

find_python() {
    local candidate tried=()
    for candidate in ${REPUT_PYTHON:-python3.12 python3.11 python3.13 python3 python}; do
        command -v "$candidate" >/dev/null || continue
        # Run it: a version manager's shim may be on PATH for a version that is not active.
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
            2>/dev/null; then
            if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
                command -v "$candidate"
                return
            fi
            tried+=("$candidate has no venv module (on Debian: apt-get install python3-venv)")
        else
            tried+=("$candidate is $("$candidate" -V 2>&1 | head -n 1)")
        fi
    done
    say "needs Python 3.11, 3.12 or 3.13 with its venv module; set REPUT_PYTHON to one."
    [ ${#tried[@]} -eq 0 ] || printf '  %s\n' "${tried[@]}" >&2
    return 1
}

# The key is written last, so an interrupted set-up leaves none.
key=$(cat requirements/build.lock requirements/reput.lock | cksum)
if [ ! -x .venv/bin/python ] || [ "$(cat .venv/reput-key 2>/dev/null)" != "$key" ]; then
    python=$(find_python)
    say "building .venv with $("$python" -V) (downloads are kept in $cache)"
    rm -rf .venv
    "$python" -m venv .venv
    # pyspark comes as source; its build uses the pinned setuptools, not the newest of the day.
    say "1 of 3: pip and what builds packages"
    .venv/bin/python -m pip install --quiet --require-hashes -r requirements/build.lock
    count=$(grep -c '==' requirements/reput.lock)
    say "2 of 3: $count packages, PySpark's 450 MB among them (a few minutes where none is in the cache)"
    .venv/bin/python -m pip install --quiet --require-hashes --no-build-isolation \
        -r requirements/reput.lock
    printf '%s\n' "$key" >.venv/reput-key
fi

# The project itself: a .pth line to this checkout, and the `reput` command.
key=$(cksum <pyproject.toml)
if [ "$(cat .venv/reput-key-project 2>/dev/null)" != "$key" ]; then
    say "3 of 3: this checkout, and the command .venv/bin/reput"
    .venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
    printf '%s\n' "$key" >.venv/reput-key-project
fi

if ! .venv/bin/python -m reput.jobs.engines.java >/dev/null 2>&1; then
    say "no fitting Java runtime here; installing one from PyPI"
    .venv/bin/python -m pip install --quiet --require-hashes -r requirements/java.lock
    .venv/bin/python -m reput.jobs.engines.java >/dev/null
fi

# Where PYTHONDONTWRITEBYTECODE is set, every start would compile a hundred modules: 0.1 s.
.venv/bin/python -m compileall -q reput/jobs reput/broker reput/store_format reput/udfs

# Compiled kernels, which a first run would make.
.venv/bin/python -m reput warm >/dev/null || say "the first run will compile kernels"
