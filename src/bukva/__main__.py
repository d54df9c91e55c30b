"""Run the command `bukva` as `python -m bukva`. This also works if the package is not installed."""

from bukva.cli.app import main

if __name__ == "__main__":
    main()
