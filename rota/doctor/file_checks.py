"""Check files that the user wants to use, and whether the folders of a job spec exist here."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from rota.agent.constants import URL_MARK
from rota.compose.file_check import check_file
from rota.doctor.diagnosis import Diagnosis, fail, ok
from rota.errors import RotaError, SpecError
from rota.files.tree import read_tree
from rota.wire.spec import Spec, spec_from


def check_files(files: Sequence[str]) -> Iterator[Diagnosis]:
    for file in files:
        try:
            found = check_file(file)
        except RotaError as problem:
            yield fail("file", problem.message, problem.hint or f"rota check {file}")
            continue
        yield ok("file", f"{file}: {found.kind}, {found.summary}")
        if found.kind == "job spec":
            yield from _folders(file, spec_from(read_tree(file, SpecError)))


def _folders(file: str, spec: Spec) -> Iterator[Diagnosis]:
    """Check the folders of a spec as if it were submitted from this folder."""
    folder = Path.cwd() / (spec.workdir or "")
    if not folder.is_dir():
        yield fail("file", f"{file}: its workdir {folder} does not exist", f"mkdir -p {folder}")
        return
    if not spec.checkpoint.dir or URL_MARK in spec.checkpoint.dir:
        return
    checkpoints = folder / spec.checkpoint.dir
    if not checkpoints.is_dir():
        yield fail("file", f"{file}: its checkpoint folder {checkpoints} does not exist", f"mkdir -p {checkpoints}")
    elif not os.access(checkpoints, os.W_OK):
        yield fail("file", f"{file}: its checkpoint folder {checkpoints} cannot be written to", f"chmod u+w {checkpoints}")
