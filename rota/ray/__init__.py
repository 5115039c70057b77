"""Rota on a Ray cluster: Ray discovers nodes, connects to them, restarts agents and reports failures. Rota decides everything
else."""
