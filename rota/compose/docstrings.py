"""Docstrings of the fields of a dataclass. Python does not keep them, so they are read from the source."""

import ast
import inspect
import itertools
import textwrap


def field_docstrings(kind: type) -> dict[str, str]:
    """Return field -> docstring, for the class and its bases. The mapping is empty if there is no source."""
    found: dict[str, str] = {}
    for owner in reversed(kind.__mro__[:-1]):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
        except (OSError, TypeError, SyntaxError):
            continue
        body = next((node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)), [])
        for node, after in itertools.pairwise(body):
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                found[node.target.id] = inspect.cleandoc(str(after.value.value))
    return found
