"""`python -m Middleware <command>`."""

import sys

from Middleware.cli.dispatch import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
