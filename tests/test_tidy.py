"""What holds for the code itself: direction of imports, sizes, banned calls, nothing unused, one vocabulary."""

from __future__ import annotations

import ast
import fnmatch
import graphlib
import inspect
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from turnlog import errors

ROOT = Path(__file__).parents[1]
SOURCE = Path(os.environ.get("TIDY_SOURCE", ROOT / "src" / "turnlog"))
TESTS = ROOT / "tests"

BASE = {"errors", "limits", "held"}
# Room -> the rooms it may import. A room not named here may import nothing but the stdlib.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "limits": set(),
    "held": set(),
    "events": BASE,
    "folds": BASE | {"events"},
    "engines": BASE | {"events"},
    "journal": BASE | {"events", "folds", "engines"},
    "formats": BASE | {"events", "folds"},
    "transfer": BASE | {"events", "folds", "engines", "journal", "formats"},
    "compat": BASE | {"formats"},
    "protocols": BASE | {"events", "folds"},
    "agents": BASE | {"events", "protocols"},
    "runner": BASE | {"events", "folds", "journal", "agents"},
    "recorders": BASE | {"events", "folds", "journal", "protocols"},
    "web": BASE | {"events", "folds", "journal", "runner", "protocols"},
    "cli": BASE
    | {"events", "folds", "engines", "journal", "formats", "transfer", "agents", "runner", "recorders", "web"},
    "testing": BASE | {"events", "folds", "engines", "journal", "agents", "runner"},
    "__main__": {"cli"},
}
WEB_MAY_IMPORT: dict[str, set[str]] = {
    "shared": set(),
    "stream": {"shared"},
    "api": {"shared", "stream"},
    "page": {"shared", "stream"},
}
WEB_SERVER = {"app", "guard", "metrics", "problems", "server"}
"""Modules of the web that put a server together."""

ENGINE_SHARED = {"protocol", "decide", "asked"}
"""Modules of the engines room that every engine may import; no engine imports another."""

LIMITS = SOURCE / "limits"

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
LIMIT_REASON_CHARS_MIN = 40

# Dotted call -> (what to use instead, files of src/turnlog that may use it).
BANNED_CALLS: dict[str, tuple[str, set[str]]] = {
    **dict.fromkeys(("time.time", "time.time_ns", "time.clock_gettime"), ("an injected Clock", {"events/clock.py"})),
    **dict.fromkeys(
        ("datetime.now", "datetime.utcnow", "datetime.today", "date.today"), ("an injected Clock", {"events/clock.py"})
    ),
    **dict.fromkeys(("uuid.uuid1", "uuid.uuid4"), ("an injected IdSource", set[str]())),
    **dict.fromkeys(("os.replace", "os.rename"), ("nothing: the engine's files are the database's", set[str]())),
    # SQLite has nothing to wait on for the lock of another process.
    "time.sleep": ("a wait for the thing itself", {"engines/sqlite/connect.py"}),
    "print": ("the command line's output module", {"cli/output.py"}),
    "eval": ("code", set()),
    "exec": ("code", set()),
}
BANNED_METHODS = {"splitlines": "split('\\n'): it also splits on U+2028 and U+0085, which JSON leaves raw"}
RANDOM_ALLOWED = {"Random", "SystemRandom"}

# Methods that are called from outside of Python.
CALLED_BY_OTHERS = {"xOpen", "capture_signals", "do_POST", "handle_error", "log_message", "send_400_response"}

# A word of the glossary -> names that would be a second word for it.
SYNONYMS = {
    "thread": {"session", "conversation", "chat"},
    "turn": {"request_id", "exchange"},
    "seq": {"sequence_number", "event_number"},
    "draft": {"partial", "delta"},
    "event": {"log_entry", "logrecord"},
    "engine": {"backend", "storage"},
    "runner": {"executor", "orchestrator"},
}
VAGUE_FILES = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}

# Absolute paths of somebody's machine, and hosts of package registries.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|home/\w+|Users/\w+|opt/\w+)/|\b(?:pypi\.org|pythonhosted\.org)\b")


def sources() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def module_of(path: Path) -> str:
    parts = ("turnlog", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def used(tree: ast.AST) -> Iterator[str]:
    """Every name that code uses: reads, imports or offers. Words in prose and in other texts are no uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.name.rpartition(".")[2] for alias in node.names)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            yield from (str(name.value) for name in ast.walk(node.value) if isinstance(name, ast.Constant))


@cache
def used_in(*folders: Path, but: Path | None = None) -> frozenset[str]:
    """The names that the code of folders uses, one file or folder left out."""
    paths = [path for folder in folders for path in folder.rglob("*.py") if but is None or not path.is_relative_to(but)]
    return frozenset(name for path in paths for name in used(tree_of(path)))


def imports(path: Path, tree: ast.AST) -> Iterator[str]:
    """Every name that a file imports, dotted and absolute. Walks functions too: a late import is still an import."""
    package = ["turnlog", *path.relative_to(SOURCE).parts[:-1]] if path.is_relative_to(SOURCE) else []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{stem}.{alias.name}" for alias in node.names)


def imported_modules(path: Path) -> set[str]:
    """The modules of turnlog that a file imports; of `from package import name` the package if name is no module."""
    known = {module_of(source) for source in sources()}
    found = set()
    for name in imports(path, tree_of(path)):
        if name in known:
            found.add(name)
        elif (stem := name.rpartition(".")[0]) in known:
            found.add(stem)
    return found


# --- one file --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sources(), ids=name_of)
def test_file_keeps_the_rules(path: Path) -> None:
    """A source file is short, imports through the doors of its room, and calls nothing that is banned."""
    found = [*wrong_imports(path), *wrong_sizes(path), *wrong_calls(path), *wrong_handlers(path)]
    assert not found, "\n".join(found)


def wrong_imports(path: Path) -> Iterator[str]:
    room = room_of(path)
    if room == "__init__":
        return
    for name in imports(path, tree_of(path)):
        first, _, rest = name.partition(".")
        if first != "turnlog":
            continue
        other = rest.partition(".")[0]
        if other != room and other not in MAY_IMPORT.get(room, set()):
            yield f"room {room!r} may not import {name}"
        if room == other == "engines" and (wrong := wrong_engine(path, rest.split(".")[1])):
            yield wrong


def wrong_engine(path: Path, other: str) -> str | None:
    own = path.relative_to(SOURCE / "engines").parts[0].removesuffix(".py")
    if own in {"open", other} or other in ENGINE_SHARED:
        return None
    return f"engine {own!r} may not import engine {other!r}"


def wrong_sizes(path: Path) -> Iterator[str]:
    if (lines := path.read_text("utf-8").count("\n")) > FILE_LINES_MAX:
        yield f"{lines} lines, at most {FILE_LINES_MAX}"
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.name}: {lines} lines, at most {FUNCTION_LINES_MAX}"


def wrong_calls(path: Path) -> Iterator[str]:
    given = {node.arg for node in ast.walk(tree_of(path)) if isinstance(node, ast.arg)}
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in BANNED_CALLS and name_of(path) not in BANNED_CALLS[called][1]:
            yield f"line {node.lineno}: {called}() is banned, use {BANNED_CALLS[called][0]}"
        stem, _, last = called.rpartition(".")
        if stem == "random" and last not in RANDOM_ALLOWED and "random" not in given:
            yield f"line {node.lineno}: {called}() is banned, use a random.Random that is an argument"
        if isinstance(node.func, ast.Attribute) and node.func.attr in BANNED_METHODS:
            yield f"line {node.lineno}: .{node.func.attr}() is banned, use {BANNED_METHODS[node.func.attr]}"


def wrong_handlers(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ExceptHandler) and all(isinstance(line, ast.Pass) for line in node.body):
            yield f"line {node.lineno}: an except whose body is only `pass`"
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield f"line {node.lineno}: an except that names no exception"


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: path.relative_to(TESTS).as_posix())
def test_no_test_sleeps(path: Path) -> None:
    """A test waits for the thing itself, never for time to pass."""
    found = [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"time.sleep", "sleep"}
    ]
    assert not found, "\n".join(found)


# --- all files -------------------------------------------------------------------------------------------------


def test_every_room_is_known() -> None:
    """No room exists that the table of doors does not name."""
    assert {room_of(path) for path in sources()} - {"__init__"} <= set(MAY_IMPORT)


def test_no_import_is_circular() -> None:
    """The modules can be put in an order in which each imports only earlier ones."""
    graph = {module_of(path): imported_modules(path) - {module_of(path)} for path in sources()}
    packages = {module_of(path) for path in sources() if path.name == "__init__.py"}
    # A package's __init__ that offers its modules' names is the one file that may look inwards.
    order = graphlib.TopologicalSorter({name: needs - packages for name, needs in graph.items()})
    try:
        order.prepare()
    except graphlib.CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_the_web_has_one_direction() -> None:
    """In the web what all share knows no room, streams know only that, API and page know both and not each other; only
    what puts a server together knows all."""
    wrong = []
    for path in sources():
        here = part_of_web(module_of(path))
        known = {part_of_web(module) or "" for module in imported_modules(path)} - {"", here}
        if here is not None and here != "server" and not known <= WEB_MAY_IMPORT[here]:
            wrong.append(f"{name_of(path)} imports {sorted(known - WEB_MAY_IMPORT[here])}")
    assert not wrong, "\n".join(wrong)


def part_of_web(module: str) -> str | None:
    """The room of a module of the web: `stream`, `api`, `page`, `server` for what knows all, `shared` for the rest."""
    name = module.removeprefix("turnlog.web.")
    if name == module:
        return None
    if name in WEB_SERVER:
        return "server"
    return name.partition(".")[0] if name.partition(".")[0] in WEB_MAY_IMPORT else "shared"


def test_every_file_is_imported() -> None:
    """No source file is dead: each is imported by another one, or by a test if it belongs to the testing kit."""
    by_source = set[str]().union(*(imported_modules(path) - {module_of(path)} for path in sources()))
    by_tests = set[str]().union(*(imported_modules(path) for path in TESTS.rglob("*.py")))
    roots = {"turnlog.cli.main", "turnlog.__main__"}
    dead = [
        name_of(path)
        for path in sources()
        if path.name != "__init__.py"
        and module_of(path) not in by_source | roots | (by_tests if room_of(path) == "testing" else set())
    ]
    assert not dead, "\n".join(dead)


def test_every_name_is_used() -> None:
    """No function, class, method or constant of a module is defined and then used by no code."""
    known = used_in(SOURCE, TESTS, ROOT / "bench") | CALLED_BY_OTHERS
    dead = [f"{name_of(path)}: {name}" for path in sources() for name in defined(tree_of(path)) if name not in known]
    assert not dead, "\n".join(dead)


def defined(tree: ast.Module | ast.ClassDef) -> Iterator[str]:
    """Names that a module or class defines. Python itself calls `__this__`, and pytest the tests of the shipped kit."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            # A function may be there for its decorator alone, as a command is; a property is not.
            registered = isinstance(tree, ast.Module) and node.decorator_list
            if not registered and not node.name.startswith(("__", "test_")):
                yield node.name
        elif isinstance(node, ast.ClassDef):
            yield node.name
            yield from defined(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(tree, ast.Module):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name) and target.id != "__all__")


def test_a_name_in_prose_is_no_use() -> None:
    """What only a docstring, a comment or a text names counts as dead."""
    prose = 'def lonely() -> None:\n    """lonely"""  # lonely\n    print("lonely")\n'
    assert "lonely" in set(defined(ast.parse(prose))) - set(used(ast.parse(prose)))
    for use in ("lonely()", "x.lonely", "from x import lonely", "__all__ = ['lonely']", "@lonely\ndef f(): ..."):
        assert "lonely" in set(used(ast.parse(use))), use


def test_names_use_the_words_of_the_glossary() -> None:
    """No function, class, argument or file is named by a second word for something the glossary names."""
    found = [
        f"{name_of(path)}: {name!r} for {word!r}"
        for path in sources()
        for name in [*named(path), path.stem]
        for word, others in SYNONYMS.items()
        if re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().strip("_") in others
    ]
    assert not found, "\n".join(found)
    assert not [name_of(path) for path in sources() if path.stem in VAGUE_FILES]


def named(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg


# --- limits and errors -----------------------------------------------------------------------------------------


def limits() -> Iterator[tuple[str, str]]:
    """Each limit with its docstring, "" when it has none."""
    for file in sorted(LIMITS.glob("*.py")):
        body = tree_of(file).body
        for node, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                text = after.value if isinstance(after, ast.Expr) else None
                yield node.target.id, str(text.value) if isinstance(text, ast.Constant) else ""


def test_every_limit_is_used_and_has_a_reason() -> None:
    """Each limit says why it is what it is, and something outside of limits/ obeys it (P11)."""
    known = used_in(SOURCE, but=LIMITS)
    found = [f"{name}: say why" for name, reason in limits() if len(reason) < LIMIT_REASON_CHARS_MIN]
    found += [f"{name}: used nowhere" for name, _ in limits() if name not in known]
    assert not found, "\n".join(found)


def error_classes() -> list[type[errors.TurnlogError]]:
    classes = [value for value in vars(errors).values() if inspect.isclass(value)]
    return [value for value in classes if issubclass(value, errors.TurnlogError)]


def test_error_tree_is_the_drawn_one() -> None:
    """The tree in errors.py shows each error class once, under its parent."""
    drawn: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").split("\n"):
        if match := re.match(r"    ((?:[│ ]   )*(?:[├└]── )?)([A-Z]\w+)", line):
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            assert match[2] not in drawn, f"{match[2]} is drawn twice"
            drawn[match[2]] = path[depth - 1] if depth else None
    real = {value.__name__: value.__base__ for value in error_classes()}
    assert drawn == {name: None if base is Exception else getattr(base, "__name__", "") for name, base in real.items()}


def test_every_error_is_used_and_has_a_message() -> None:
    """Each error is raised somewhere, or is the parent of one that is, and its docstring begins with one sentence."""
    known = used_in(SOURCE, but=SOURCE / "errors.py")
    found = []
    for error in error_classes():
        if not error.__subclasses__() and error.__name__ not in known:
            found.append(f"{error.__name__}: used nowhere")
        if not (error.__doc__ or "").partition("\n")[0].endswith("."):
            found.append(f"{error.__name__}: its first line is no sentence")
    assert not found, "\n".join(found)


# --- the checkout ----------------------------------------------------------------------------------------------


def checkout() -> Iterator[Path]:
    """Files of the checkout that git does not ignore; git itself need not be there."""
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text("utf-8").split()] + [".git"]
    for folder, folders, files in os.walk(ROOT):
        for names in (folders, files):
            names[:] = sorted(name for name in names if not any(fnmatch.fnmatch(name, glob) for glob in ignored))
        yield from (Path(folder, name) for name in files)


def test_checkout_names_no_machine() -> None:
    """No file of the checkout holds a path of somebody's machine or the host of a registry."""
    found = []
    for path in checkout():
        text = path.read_bytes().decode("utf-8", "replace")
        if path != Path(__file__):
            found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in MACHINE_PATH.finditer(text)]
    assert not found, "\n".join(found)


def test_checkout_is_plain_text() -> None:
    """Every file but a picture is UTF-8, ends with a line feed, and has no carriage return or space before one."""
    found = []
    for path in checkout():
        data = path.read_bytes()
        if (
            path.suffix != ".png"
            and data
            and (not data.endswith(b"\n") or b"\r" in data or re.search(rb"[ \t]\n", data))
        ):
            found.append(str(path.relative_to(ROOT)))
    assert not found, "\n".join(found)


def test_makefile_runs_what_it_says() -> None:
    """Every target of the Makefile is phony unless it is a file in .venv, so no file of that name can switch it off."""
    text = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))
    phony = set(re.search(r"^\.PHONY: (.+)$", text, re.MULTILINE)[1].split())  # type: ignore[index]
    assert targets == phony
