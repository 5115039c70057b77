"""Output of a job cannot control the terminal of its reader."""

import pytest

from rota.cli.logs import harmless


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("step 1\n\tloss 0.5\n", "step 1\n\tloss 0.5\n"),
        ("\x1b[31mred\x1b[0m\n", "\\x1b[31mred\\x1b[0m\n"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("10%\r20%\r\ndone\n", "10%\n20%\ndone\n"),
        ("a\x00b\x08c\x7f", "a\\x00b\\x08c\\x7f"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("naïve 数 👩‍🔬\n", "naïve 数 👩‍🔬\n"),
    ],
)
def test_control_characters_are_shown_as_text(written: str, shown: str) -> None:
    assert "".join(harmless([written])) == shown
    assert "".join(harmless(written)) == shown, "however it is cut into pieces"
