"""`python -m wenzhen.demo` is `app.py` where the package is installed."""

import sys

from wenzhen.demo.main import main
from wenzhen.errors import run

if __name__ == "__main__":
    sys.exit(run(main))
