"""The reader of progress, against output and patterns of all kinds."""

import re
import time

import pytest

from rota.agent.progress_parser import LINE_BYTES, LOOK_BYTES, LOOK_SECONDS, ProgressParser, number


class Follower:
    def __init__(self, pattern: str) -> None:
        self.progress = ProgressParser(pattern)

    def add(self, text: bytes) -> tuple[float | None, float | None]:
        self.progress.add(text)
        self.progress.look()
        return self.progress.step, self.progress.total


@pytest.fixture
def follower() -> Follower:
    return Follower(r"step ([\w.,+-]+)(?:/([\w.,+-]+))?")


def test_only_complete_lines(follower: Follower) -> None:
    assert follower.add(b"") == (None, None)
    assert follower.add(b"step 5") == (None, None)
    assert follower.add(b"00/1000\n") == (500.0, 1000.0)
    assert follower.add(b"nothing\n") == (500.0, 1000.0)
    assert follower.add(b"step 600\nstep 700\nafter it\nstep 8") == (700.0, 1000.0)
    assert follower.progress.look(final=True) and follower.progress.step == 8.0


def test_a_bar_that_draws_itself_again(follower: Follower) -> None:
    assert follower.add(b" 10%|# | step 1/10\r 20%|##| step 2/10\r 30%") == (2.0, 10.0)


@pytest.mark.parametrize(
    ("text", "step"),
    [("1234", 1234.0), ("1,234", 1234.0), ("1_234", 1234.0), ("1234.5", 1234.5), ("1e3", 1000.0), ("0", 0.0)],
)
def test_numbers(text: str, step: float) -> None:
    assert number(text) == step


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "-inf", "-1", "1e999", "9" * 2_000, "1__0", None])
def test_what_is_no_number(text: str | None, follower: Follower) -> None:
    assert number(text) is None
    assert follower.add(f"step 3\nstep {text}\n".encode())[0] == 3.0


def test_output_that_is_not_text(follower: Follower) -> None:
    assert follower.add(b"\xff\xfe\x00 step 9/\xff\n") == (9.0, None)


def test_a_line_without_an_end(follower: Follower) -> None:
    assert follower.add(b"step 4 " + b"x" * LINE_BYTES)[0] == 4.0
    for _ in range(5):
        assert follower.add(b"step 5 " * 10_000)[0] == 4.0
    assert len(follower.progress._begun) <= LINE_BYTES
    assert follower.add(b"step 6\nstep 7\n")[0] == 7.0


def test_more_than_a_look_takes(follower: Follower) -> None:
    """The end counts, and the line it was cut in does not."""
    follower.add(b"step 1" + b"0" * 100 + b"\n" + b"step 2\n" * (LOOK_BYTES // 4) + b"step 3\n")
    assert follower.progress.step == 3.0
    assert follower.add(b"x" * (2 * LOOK_BYTES) + b"step 4\n")[0] == 3.0
    assert follower.add(b"step 5\n")[0] == 5.0


def test_only_the_last_lines_are_matched(follower: Follower) -> None:
    assert follower.add(b"step 1\n" + b"no\n" * 300)[0] is None


def test_far_out_in_a_line_is_not_looked(follower: Follower) -> None:
    assert follower.add(b" " * 3_000 + b"step 1\n")[0] is None


def test_what_comes_between_two_looks_is_kept_in_bounds(follower: Follower) -> None:
    for _ in range(40):
        follower.progress.add(b"step 1\n" * 10_000)
    assert len(follower.progress._fresh) <= LOOK_BYTES
    assert follower.add(b"step 2\n")[0] == 2.0 and not follower.progress._fresh


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (r"(a+)+$", b"a" * 1_900 + b"b"),
        (r"(?:a|a)*(c)", b"a" * 500),
        (r"(.*)*x(y)", b"z" * 100),
        (r"^(([a-z])+.)+[A-Z]$", b"a" * 99),
    ],
)
def test_a_pattern_that_never_ends_is_given_up(pattern: str, line: bytes) -> None:
    assert re.compile(pattern).groups <= 2
    follower = Follower(pattern)
    before_s = time.process_time()
    follower.add((line + b"\n") * 300)
    assert time.process_time() - before_s < 20.0
    assert not follower.progress.wanted and "took more than" in follower.progress.problem
    assert follower.add(b"aaa\n") == (None, None)
    time.sleep(0.3)  # No alarm is left behind.


def test_a_pattern_that_has_to_wait_for_the_cpu_is_kept(follower: Follower) -> None:
    """As on a machine with more to do than it has cores: time passes, and nothing is computed."""
    pattern = follower.progress._pattern
    assert pattern is not None

    class Waiting:
        groups = pattern.groups

        def search(self, line: str) -> re.Match[str] | None:
            time.sleep(2 * LOOK_SECONDS)
            return pattern.search(line)

    follower.progress._pattern = Waiting()  # type: ignore[assignment]
    assert follower.add(b"step 7\n")[0] == 7.0 and follower.progress.wanted


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(", "cannot be used"),
        ("a{99999999999}(b)", "cannot be used"),
        ("step", "needs one or two groups (step, total) and has 0"),
        ("(a)(b)(c)", "has 3"),
    ],
)
def test_a_pattern_that_cannot_be_used(pattern: str, problem: str) -> None:
    follower = Follower(pattern)
    assert problem in follower.progress.problem and not follower.progress.wanted
    assert follower.add(b"step 1\n") == (None, None)
