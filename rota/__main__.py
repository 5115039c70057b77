"""Run the command `rota` with `python -m rota`."""

from rota.cli.main import main

if __name__ == "__main__":
    main()
