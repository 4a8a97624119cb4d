"""Write a software bill of materials (CycloneDX 1.5) of a release.

python release/sbom.py dist/schirn-0.3.0-py3-none-any.whl dist/schirn-0.3.0.cdx.json

It lists the wheel with its SHA-256 checksum, and the versions and checksums of
release/versions.txt: what the core needs as required, what only extras need as optional.
"""

import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def main(wheel: str, output: str) -> int:
    """Write the document, and say how long it is."""
    document = bill(Path(wheel), (HERE / "versions.txt").read_text("utf-8"))
    Path(output).write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    sys.stdout.write(f"{output}: {len(document['components'])} components\n")
    return 0


def bill(wheel: Path, versions: str) -> dict[str, Any]:
    """Return the document of a wheel."""
    name, version = wheel.name.split("-")[:2]
    listed = list(components(versions))
    unlocked = core() - {component["name"] for component in listed}
    if unlocked:
        raise SystemExit(f"release/versions.txt lacks {', '.join(sorted(unlocked))}; run make lock")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name}@{version}",
                "licenses": [{"license": {"id": "BSD-3-Clause"}}],
                "hashes": [_sha256(hashlib.sha256(wheel.read_bytes()).hexdigest())],
            }
        },
        "components": listed,
    }


def components(versions: str) -> Iterator[dict[str, Any]]:
    """Yield the packages of a list of versions with hashes."""
    packages = {}
    for entry in re.split(r"\n(?=[a-zA-Z0-9])", versions):
        pinned = re.match(r"([\w.-]+)(?:\[[\w,]+\])?==(\S+)", entry)
        if pinned is None:
            continue
        name = pinned[1].lower()
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)
        if not hashes:
            raise SystemExit(f"release/versions.txt: {name} has no checksum; run make lock")
        # The comment behind the hashes names the packages that ask for this one.
        asking = set(re.findall(r"# +(?:via )?([\w.-]+)", entry)) - {"via"}
        packages[name, pinned[2]] = hashes, asking
    required, before = core(), set[str]()
    while required != before:
        before = set(required)
        required |= {name for (name, _), (_, asking) in packages.items() if asking & before}
    for (name, version), (hashes, _) in packages.items():
        yield {
            "type": "library",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name}@{version}",
            "scope": "required" if name in required else "optional",
            "hashes": [_sha256(value) for value in hashes],
        }


def core() -> set[str]:
    """Names of the dependencies that every installation has."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]
    return {re.split(r"[<>=\[ ]", line)[0].lower() for line in project["dependencies"]}


def _sha256(value: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": value}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
