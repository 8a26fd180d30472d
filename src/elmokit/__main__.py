"""`python -m elmokit` is the same program as `elmokit`."""

from .cli import main

if __name__ == "__main__":
    main()
