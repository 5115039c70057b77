"""Scripts with directives run on a real scheduler, and a configuration file serves the scheduler and its clients."""

import os
import subprocess
import sys
from pathlib import Path

from tests.live.harness import Site


def test_scripts_run_with_their_directives_and_a_configuration_file(tmp_path: Path) -> None:
    config, folder = tmp_path / "config.yaml", tmp_path / "scripts"
    site = Site(tmp_path, pretend="2xV100")
    config.write_text(f"home: {site.home}\nup:\n  placer: spread\nsubmit:\n  gpus: 2\n  env: [OF_FILE=yes]\n")
    folder.mkdir()
    (folder / "train.sh").write_text(
        "#!/bin/bash\n#SBATCH --job-name=net --gres=gpu:1\n#SBATCH --mem=8G\n#SBATCH --export=EPOCHS=90\n#ROTA compat: slurm\n"
        'echo "$1 $EPOCHS $OF_FILE $SLURM_JOB_NAME $SLURM_JOB_ID $SLURM_GPUS_ON_NODE $SLURM_RESTART_COUNT"\n'
    )
    (folder / "train.py").write_text("import os, sys\nprint(sys.prefix, os.environ['ROTA_GPUS'], *sys.argv[1:])\n")
    env = {**os.environ, "ROTA_CONFIG": str(config), "VIRTUAL_ENV": sys.prefix}
    env.pop("ROTA_HOME", None)

    def rota(*words: str) -> str:
        done = subprocess.run([sys.executable, "-m", "rota", *words], cwd=folder, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    site.env = {"ROTA_CONFIG": str(config)}
    site.up()
    try:
        rota("submit", "train.sh", "first argument")
        rota("submit", "train.py", "--", "--epochs", "$HOME; true")
        rota("wait", "1", "2")
        assert "\nfirst argument 90 yes net 1 1 0\n" in rota("logs", "1")
        assert f"\n{sys.prefix} 2 --epochs $HOME; true\n" in rota("logs", "2")
        assert "placer spread" in rota("status")
    finally:
        site.close()
