"""python -m spreeze"""

import sys

from spreeze.cli import main

sys.exit(main())
