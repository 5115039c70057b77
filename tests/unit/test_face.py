"""The public face: what `import rota` offers, and where it refuses to run."""

import subprocess
import sys
from pathlib import Path

import pytest

import rota


def test_everything_promised_is_there() -> None:
    for name in rota.__all__:
        assert getattr(rota, name) is not None
    assert sorted(rota.__all__) == dir(rota)


def test_nothing_else_is() -> None:
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        _ = rota.simulat  # type: ignore[attr-defined]


def test_importing_rota_loads_no_heavy_library() -> None:
    code = "import rota, sys; print(sorted({'numpy', 'scipy', 'rich'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_a_scheduler_is_found_by_its_home(tmp_path: Path) -> None:
    with pytest.raises(rota.errors.UnreachableError, match="No scheduler has been started"):
        rota.connect(tmp_path)


def test_three_lines_to_a_result() -> None:
    result = rota.simulate("demo", policy="srsf", cluster="8xV100 + 8xP100 + 8xK80")
    assert "JCT mean" in str(result) and "at best" in str(result)
    assert len(result.jobs) == result.summary.jobs


def test_a_declared_policy_works_by_name_and_as_an_object() -> None:
    @rota.policy("test-mine")
    class Mine:
        def allocate(self, view: rota.View) -> rota.Ranking:
            return rota.Ranking.by(view.jobs.steps_left * view.jobs.gpus)

    by_name, by_object = rota.compare(["test-mine", Mine()], trace="demo", cluster="24xV100")
    assert by_name.summary.mean_jct_seconds == by_object.summary.mean_jct_seconds


def test_a_built_in_name_cannot_be_taken() -> None:
    with pytest.raises(rota.errors.OptionError, match="built-in policy has this name"):

        @rota.policy("fifo")
        class Mine:
            def allocate(self, view: rota.View) -> rota.Ranking: ...  # type: ignore[empty-body]


def test_an_unknown_keyword_is_refused() -> None:
    with pytest.raises(rota.errors.OptionError, match="lanch_seconds"):
        rota.simulate("demo", cluster="4xV100", lanch_seconds=4)


@pytest.mark.parametrize("platform", ["win32", "cygwin"])
def test_windows_is_refused_with_a_clear_line(platform: str) -> None:
    with pytest.raises(ImportError, match=r"does not run on Windows\. Try: Linux"):
        rota.check_platform(platform)


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_linux_and_macos_are_welcome(platform: str) -> None:
    rota.check_platform(platform)
    assert rota.__version__
