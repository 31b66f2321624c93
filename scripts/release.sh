#!/usr/bin/env bash
# Builds what a release consists of, in dist/: wheel, the zip for spark-submit, the site; and
# looks at each: twine's check, the wheel in a new environment with the demo's store, the zip's content.
# Nothing is published. `make release` calls it after `make docs`.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
say() { printf 'make release: %s\n' "$*" >&2; }

version=$("$python" -c 'import reput; print(reput.__version__)')
if ! grep -q "^## $version" CHANGELOG.md; then
    say "CHANGELOG.md has no section for $version"
    exit 1
fi
rm -rf dist
mkdir dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say "1 of 5: wheel"
# of what git has, so that nothing that merely lies here is packed
git ls-files -z reput jobs udfs broker store_format docs/reput.1 pyproject.toml README.md LICENSE |
    tar --null --files-from=- -cf - | tar -xf - -C "$work"
"$python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist "$work"
"$python" -m twine check --strict dist/*.whl

say "2 of 5: zip for spark-submit"
"$python" scripts/make_zip.py >/dev/null
"$python" -P -c "
import sys; sys.path.insert(0, 'dist/reput.zip')
import reput; assert reput.__file__.startswith('dist/reput.zip'); reput.rebuild"

say "3 of 5: the wheel in a new environment"
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "$(echo "$PWD"/dist/*.whl)[spark,java,completion]"
[ "$("$work/venv/bin/reput" --version)" = "reput $version" ]

say "4 of 5: the demo, by the wheel"
(cd "$work" && venv/bin/reput demo)

say "5 of 5: the site"
tar -czf "dist/reput-$version-docs.tar.gz" -C build site
ls -l dist >&2
