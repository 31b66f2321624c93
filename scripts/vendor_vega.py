"""Brings the scripts of jobs/page/assets anew from npm: `python scripts/vendor_vega.py`.

Each package is pinned by version and by the SHA-512 that npm gives for it (npm view NAME@VERSION
dist.integrity). After a change run tests/jobs/page/ with a browser.
"""

import base64
import hashlib
import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

ASSETS = Path(__file__).parents[1] / "jobs" / "page" / "assets"
# package -> version, the file in it, what it is called here
PACKAGES = {
    "vega": ("6.4.0", "build/vega.min.js", "vega.min.js"),
    "vega-lite": ("6.4.3", "build/vega-lite.min.js", "vega-lite.min.js"),
    "vega-interpreter": ("2.3.2", "build/vega-interpreter.js", "vega-interpreter.js"),
}
SHA512 = {
    "vega": "rHXCq2LpEWCLMjXBEj7hocY9G0/i5TGYRayGGSj06VTF4+l2IG2Z7oeZKCjWbUh/7hTE/mVhbaOPB72wCElh6g==",  # noqa: E501
    "vega-lite": "d/7hPjfz560UERaQuTmGgIVfXAe3g2hJWeC+igDeaGohUdEoNrHLXgR/yTOBT8vV/lIuuKnw+0/xWWblkDwkMQ==",  # noqa: E501
    "vega-interpreter": "JDAoi3taFcCDLujZG84TNNUXdkAZ5WsSHssx8lWVYaxb9Slsjk7v7PtRIYXpSlUwLaKGRBqoJ9KDs36Z0eMEIw==",  # noqa: E501
}
_IMPORT = "import { ascending, isString, DisallowedObjectProperties } from 'vega-util';"
_EXPORT = "export { expression as expressionInterpreter };"


def main() -> None:
    licences = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (version, inside, here) in PACKAGES.items():
            pack = ["npm", "pack", "--silent", f"{name}@{version}"]
            subprocess.run(pack, cwd=folder, check=True, stdout=subprocess.DEVNULL)
            content = (Path(folder) / f"{name}-{version}.tgz").read_bytes()
            found = base64.b64encode(hashlib.sha512(content).digest()).decode()
            if found != SHA512[name]:
                raise SystemExit(f"{name} {version}: SHA-512 is {found}: not what is pinned")
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                script = _member(archive, inside)
                licences.append(f"{name} {version}\n\n{_member(archive, 'LICENSE').strip()}\n")
            (ASSETS / here).write_text(as_plain_script(script))
    (ASSETS / "LICENSES.txt").write_text(f"\n{'-' * 80}\n\n".join(licences))


def as_plain_script(script: str) -> str:
    """The script as an inline one: a module's import and export become names of `vega` and ours."""
    script = "\n".join(
        line for line in script.splitlines() if not line.startswith("//# sourceMappingURL=")
    )
    if _IMPORT in script:
        script = script.replace(_IMPORT, _IMPORT[7:].replace("from 'vega-util'", "= vega"))
        script = script.replace("{ ascending", "const { ascending", 1)
        script = script.replace(_EXPORT, "globalThis.expressionInterpreter = expression;")
        script = f"(function () {{\n{script}\n}})();"
    if "</script" in script.lower() or "<!--" in script:
        raise SystemExit("a script that would end its element")
    return f"{script}\n"


def _member(archive: tarfile.TarFile, name: str) -> str:
    file = archive.extractfile(f"package/{name}")
    assert file is not None, name
    return file.read().decode()


if __name__ == "__main__":
    main()
