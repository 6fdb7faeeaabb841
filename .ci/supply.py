"""The supply of packages: hashes in the lock file, requirements that pip checks against them, and a bill of materials.

    python .ci/supply.py hashes        puts the hash of each file into requirements.lock
    python .ci/supply.py requirements  prints the lock as pip reads it in hash-checking mode
    python .ci/supply.py sbom          writes sbom.cdx.json, a bill of materials in CycloneDX 1.5

In the lock file a hash is a comment, so that the file also serves as constraints. A hash is that of the one file that
pip chooses on the machine that made the lock (Linux, x86-64, Python 3.11).
"""

import hashlib
import importlib.metadata
import json
import re
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from urllib.parse import unquote, urlparse

ROOT = Path(__file__).resolve().parents[1]
LOCK, SBOM = ROOT / "requirements.lock", ROOT / "sbom.cdx.json"
_LINE = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[\w.+!-]+)(?:  # sha256:(?P<sha256>[0-9a-f]{64}))?")


def locked(path: Path = LOCK) -> list[dict[str, str]]:
    """Name, version and hash of every package in the lock file."""
    found = []
    for line in path.read_text().splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise SystemExit(f"{path.name}: expected NAME==VERSION  # sha256:HASH, got {line!r}.")
        found.append(match.groupdict())
    return found


def hashes() -> None:
    """Gives every package in the lock file the hash of the file that pip would install."""
    pins = [f"{package['name']}=={package['version']}" for package in locked()]
    with tempfile.TemporaryDirectory() as folder:
        wanted, report = Path(folder, "wanted.txt"), Path(folder, "report.json")
        wanted.write_text("\n".join(pins))
        words = ["install", "-q", "--dry-run", "--ignore-installed", "--no-deps", "--report", str(report)]
        subprocess.run([sys.executable, "-m", "pip", *words, "-r", str(wanted)], check=True)
        chosen = json.loads(report.read_text())["install"]
    found = {_canonical(each["metadata"]["name"]): _sha256(each["download_info"]) for each in chosen}
    lines = [f"{pin}  # sha256:{found[_canonical(pin.partition('==')[0])]}" for pin in pins]
    LOCK.write_text("\n".join(lines) + "\n")


def _sha256(download: dict) -> str:
    """The hash that pip reports, or that of the file itself if it lies on this machine."""
    url = urlparse(download["url"])
    if url.scheme == "file":
        return hashlib.sha256(Path(unquote(url.path)).read_bytes()).hexdigest()
    return download["archive_info"]["hashes"]["sha256"]


def requirements() -> None:
    """Prints the lock file for `pip install --require-hashes -r`."""
    for package in locked():
        print(f"{package['name']}=={package['version']} --hash=sha256:{package['sha256']}")


def sbom() -> None:
    """Writes the bill of materials. The same lock gives the same file."""
    from understudy.core.version import __version__

    components = [_component(package) for package in locked()]
    identity = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components, sort_keys=True))
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{identity}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": "understudy-dp",
                "name": "understudy-dp",
                "version": __version__,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
    }
    SBOM.write_text(json.dumps(document, indent=1) + "\n")


def _component(package: dict[str, str]) -> dict:
    name, version = _canonical(package["name"]), package["version"]
    found = {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name}@{version}",
        "name": package["name"],
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "hashes": [{"alg": "SHA-256", "content": package["sha256"]}],
    }
    license_name = _license(package["name"])
    return found | ({"licenses": [{"license": {"name": license_name}}]} if license_name else {})


def _license(name: str) -> str:
    """What a package that is installed says about its licence, in one line; empty if it says nothing."""
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
    classifiers = [each.rpartition(" :: ")[2] for each in metadata.get_all("Classifier", []) if "License" in each]
    stated = metadata.get("License-Expression") or "; ".join(classifiers) or metadata.get("License") or ""
    return stated.strip().splitlines()[0][:100] if stated.strip() else ""


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    {"hashes": hashes, "requirements": requirements, "sbom": sbom}[sys.argv[1]]()
