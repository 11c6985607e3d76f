"""The fault suite starts and watches runs as the integration tests do."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "integration"))
