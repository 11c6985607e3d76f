"""Known holes in the packages that are installed: `make audit`.

It asks a service on the network (PyPI's, by pip-audit), so it is no part of `make check`, which works without one. What
the service does not know is named, and nothing known at all is a failure: silence is not a clean bill.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def main() -> int:
    asked = subprocess.run(
        [sys.executable, "-m", "pip_audit", "--local", "--skip-editable", "--progress-spinner", "off", "-f", "json"],
        capture_output=True,
        text=True,
    )
    try:
        found = json.loads(asked.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(f"the audit could not be done:\n{asked.stderr[-2000:]}", file=sys.stderr)
        return 1
    return judge(found)


def judge(found: list[dict[str, Any]]) -> int:
    unknown = [package["name"] for package in found if "skip_reason" in package]
    known = [package for package in found if "skip_reason" not in package]
    holes = [(package, hole) for package in known for hole in package["vulns"]]
    for package, hole in holes:
        fixed = ", ".join(hole.get("fix_versions", [])) or "none yet"
        print(f"{package['name']} {package['version']}: {hole['id']}; fixed in {fixed}")
    print(f"{len(known)} packages looked up, {len(holes)} known holes; not known there: {', '.join(unknown) or 'none'}")
    if not known:
        print("nothing could be looked up: is PyPI itself reachable, and not a mirror of its files?", file=sys.stderr)
    return 1 if holes or not known else 0


if __name__ == "__main__":
    sys.exit(main())
