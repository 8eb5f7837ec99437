"""`python -m kpackfs_fleet`."""

import sys

from .cli import main

sys.exit(main())
