#!/usr/bin/env bash
# Brings what tests/jobs/page/test_browser.py wants: a Chromium of the system, and playwright, which drives
# it. Without either those tests are skipped, and say so.
set -euo pipefail
cd "$(dirname "$0")/.."

there() { command -v chromium || command -v chromium-browser || command -v google-chrome; }

if ! there >/dev/null; then
    root=()
    [ "$(id -u)" = 0 ] || root=(sudo -n)
    "${root[@]}" apt-get update -qq
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
fi
.venv/bin/python -m pip install -q --require-hashes --no-deps -r requirements/browser.lock
echo "browser.sh: $(there), driven by playwright"
