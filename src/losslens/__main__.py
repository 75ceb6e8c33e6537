"""`python -m losslens`: the command line."""

from losslens.cli import main

if __name__ == "__main__":
    main()
