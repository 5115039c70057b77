"""`python -m rota` is `rota`."""

from rota.cli.main import main

main()
