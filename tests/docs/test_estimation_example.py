"""The example in docs/profiles.md prints what the page says."""

import contextlib
import io

from tests.docs.test_examples import blocks


def test_jobs_nobody_has_profiled() -> None:
    (code,) = blocks("docs/profiles.md", "python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/profiles.md", "exec"), {})
    assert printed.getvalue() in blocks("docs/profiles.md", "text")
