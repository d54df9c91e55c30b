"""python -m bukva: the command `bukva`, without an installation."""

from bukva.cli.app import main

if __name__ == "__main__":
    main()
