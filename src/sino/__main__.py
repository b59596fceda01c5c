"""`python -m sino` is `sino`."""

import sys

from sino.cli import main

sys.exit(main())
