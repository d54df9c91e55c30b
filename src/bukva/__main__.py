"""Run the command `bukva` as `python -m bukva`, which works without installing the package."""

from bukva.cli.app import main

if __name__ == "__main__":
    main()
