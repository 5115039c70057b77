"""Rota on a Ray cluster: Ray finds nodes, reaches them, restarts agents and tells who died. Rota decides everything else."""
