"""Only `fold` and `learn` write the state, with the methods of `state`. Everything else in the core reads it.

Read from the source with `ast`: nothing else in `rota/core` assigns to what it reaches through a state, deletes it, or calls a
method on it that writes. What is reached through a local name counts too (`jobs = state.jobs`).
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[2] / "rota" / "core"
WRITERS = {"fold", "learn", "state"}

# fmt: off
CONTAINERS = {
    "add", "append", "clear", "difference_update", "discard", "extend", "fill", "insert",
    "intersection_update", "itemset", "partition", "pop", "popitem", "put", "remove", "resize",
    "setdefault", "setflags", "sort", "symmetric_difference_update", "update",
}
"""Methods of dicts, sets, lists and arrays that change them."""
OCCUPANCY = {"take", "join", "leave", "release", "resize", "grow"}
CHANGES = CONTAINERS | OCCUPANCY
# fmt: on


def trees(folder: Path) -> list[tuple[str, ast.Module]]:
    files = sorted(folder.rglob("*.py"))
    return [(file.relative_to(CORE).as_posix(), ast.parse(file.read_text(encoding="utf-8"))) for file in files]


def root(node: ast.expr) -> str:
    """What a chain of attributes and items hangs on: `state` for `state.jobs.row[7]`, `self.state` for `self.state.now_s`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute) and node.attr in ("state", "_state"):
            return "state"
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def targets(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement assigns to or deletes, item by item."""
    found: list[ast.expr] = []
    if isinstance(node, ast.Assign | ast.Delete):
        found = list(node.targets)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For):
        found = [node.target]
    while found:
        each = found.pop()
        if isinstance(each, ast.Tuple | ast.List):
            found += each.elts
        else:
            yield each


def bound(function: ast.AST, first: str = "state") -> set[str]:
    """Local names for the state (or for `first`) and for what is reached through it."""
    names = {first}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for left in node.targets:
                pairs = [(left, node.value)]
                if isinstance(left, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(left.elts, node.value.elts, strict=False))
                for name, value in pairs:
                    if isinstance(name, ast.Name) and isinstance(value, ast.Name | ast.Attribute) and root(value) in names:
                        names.add(name.id)
    return names


def writing_methods() -> set[str]:
    """Methods of the state and its records that write what a snapshot keeps, directly or by another such method."""
    methods = [
        node
        for _, tree in trees(CORE / "state")
        for each in ast.walk(tree)
        if isinstance(each, ast.ClassDef)
        for node in each.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("__")
    ]
    found: set[str] = set()
    while True:
        more = {each.name for each in methods if any(own_writes(each, found))} - found
        if not more:
            return found
        found |= more


def own_writes(method: ast.FunctionDef, known: set[str]) -> Iterator[int]:
    """Lines of a method that write to `self`. What begins with `_` only saves work, and may be filled in by a reader."""
    names = bound(method, "self") | {"state"}
    for node in ast.walk(method):
        for target in targets(node):
            if isinstance(target, ast.Attribute | ast.Subscript) and root(target) in names and not memo(target):
                yield target.lineno
        if called(node, names, CHANGES | known):
            yield method.lineno


def called(node: ast.AST, names: set[str], methods: set[str]) -> bool:
    """It calls one of these methods on what is reached through one of these names, memos apart."""
    return any(
        each.attr in methods and root(each.value) in names and not memo_of_self(each.value)
        for each in callees(node)
        if isinstance(each, ast.Attribute)
    )


def callees(node: ast.AST) -> list[ast.expr]:
    """What a call calls: of `(held.add if yes else held.discard)(job)` either."""
    if not isinstance(node, ast.Call):
        return []
    return [node.func.body, node.func.orelse] if isinstance(node.func, ast.IfExp) else [node.func]


def memo_of_self(node: ast.expr) -> bool:
    return root(node) == "self" and memo(node)


def memo(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            return True
        node = node.value
    return False


def writes(path: str, tree: ast.Module, methods: set[str]) -> list[str]:
    """Each place where a module writes to a state."""
    found: set[int] = set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        names = bound(function)
        for node in ast.walk(function):
            for target in targets(node):
                replaced = isinstance(target, ast.Attribute) and target.attr in ("state", "_state")  # another state, not a write
                if isinstance(target, ast.Attribute | ast.Subscript) and root(target) in names and not replaced:
                    found.add(target.lineno)
            if isinstance(node, ast.Call) and called(node, names, CHANGES | methods):
                found.add(node.lineno)
    return [f"rota/core/{path}:{line}: writes the state" for line in sorted(found)]


def test_only_fold_and_learn_write_the_state() -> None:
    methods = writing_methods()
    found = [line for path, tree in trees(CORE) if path.split("/")[0] not in WRITERS for line in writes(path, tree, methods)]
    assert not found, "\n" + "\n".join(found)


def test_the_writing_methods_are_found() -> None:
    methods = writing_methods()
    assert {
        "set_desired",
        "occupy",
        "vacate",
        "forget",
        "invalidate",
        "begin_policy_call",
        "transition",
        "add_node",
        "finish",
        "compact",
        "requeue",
    } <= methods
    assert methods.isdisjoint({"usable", "rows", "settled", "placement_traits", "pool_rank", "memoised", "copy", "gpus_of"})


LIFE = {
    "phase": {"transition", "reappear"},
    "phase_s": {"transition", "reappear", "add"},
    "blocks": {"_set_blocks", "add"},
    "unschedulable_holders": {"_set_blocks", "__post_init__"},
    "to_reconcile": {"requeue", "_drop"},
}
"""What says where a job is in its life, and the functions that may write it."""


def life_writes(tree: ast.Module) -> list[tuple[str, str, int]]:
    """Each write to one of them: what is written, the function, and its line."""
    found = []
    for function in (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)):
        for node in ast.walk(function):
            written = [each.value if isinstance(each, ast.Subscript) else each for each in targets(node)]
            written += [each.value for each in callees(node) if isinstance(each, ast.Attribute) and each.attr in CHANGES]
            names = [each.attr for each in written if isinstance(each, ast.Attribute) and each.attr in LIFE]
            found += [(name, function.name, node.lineno) for name in names]
    return found


def test_one_method_moves_a_job_to_another_phase() -> None:
    found = [(path, *write) for path, tree in trees(CORE) for write in life_writes(tree)]
    stray = [f"rota/core/{path}:{line}: {by} writes `{name}`" for path, name, by, line in found if by not in LIFE[name]]
    assert not stray, "\n".join(stray)
    assert {(name, by) for _, name, by, _ in found} == {(name, by) for name, owners in LIFE.items() for by in owners}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("state.jobs.table.phase[3] = 1", "phase"),
        ("table.phase[row], table.phase_s[row] = 1, 0.0", "phase_s"),
        ("table.blocks[rows] |= 4", "blocks"),
        ("jobs.unschedulable_holders = jobs.unschedulable_holders | {job}", "unschedulable_holders"),
        ("(jobs.to_reconcile.add if yes else jobs.to_reconcile.discard)(job)", "to_reconcile"),
    ],
)
def test_a_write_to_the_life_of_a_job_is_noticed(line: str, name: str) -> None:
    assert (name, "elsewhere", 2) in life_writes(ast.parse(f"def elsewhere(state):\n    {line}\n"))


@pytest.mark.parametrize(
    "line",
    [
        "state.cycle.fresh = False",
        "state.jobs.table.option[3] = 1",
        "state.cycle.plans += 1",
        "state.now_s, other = 1.0, 2",
        "del state.jobs.desired[3]",
        "state.jobs.to_reconcile.add(3)",
        "state.cycle.invalidate()",
        "self.state.set_desired(3, 0, -1, None)",
        "self._state.machines.host_gib[0] -= 1.0",
        "table = state.jobs.table; table.rate[0] = 2.0",
        "jobs, known = state.jobs, state.beliefs; known.rates = None",
        "jobs = state.jobs; held = jobs.held; held.clear()",
    ],
)
def test_a_write_is_noticed(line: str) -> None:
    tree = ast.parse(f"def reader(self, state):\n    {line}\n")
    assert writes("plan/reader.py", tree, writing_methods())


@pytest.mark.parametrize(
    "line",
    [
        "self.state = restore(plain)",
        "left = state.nodes.planned.copy(); left.release(3, gpus)",
        "free = state.nodes.observed.free & mask; free[3] = True",
        "mask, counts = state.usable()",
        "rows = {job: state.jobs.row[job] for job in jobs}; rows.pop(3)",
    ],
)
def test_reading_is_not_taken_for_a_write(line: str) -> None:
    tree = ast.parse(f"def reader(self, state):\n    {line}\n")
    assert not writes("plan/reader.py", tree, writing_methods())
