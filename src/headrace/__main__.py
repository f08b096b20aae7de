"""`python -m headrace` is `headrace`."""

from headrace.cli import main

if __name__ == "__main__":
    main()
