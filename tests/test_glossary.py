"""Code and pages keep to the words of docs/glossary.md, as far as a program can tell."""

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "understudy"
LEFT_OUT: Final = {ROOT / "docs" / "glossary.md", ROOT / "docs" / "modules.md"}  # names them; is made of the code
TEXTS: Final = (".py", ".md", ".ts", ".tsx", ".css", ".jinja")

PHRASES: Final = {
    "by lot": r"\bby lot\b",
    "is no X": r"(?<!there )(?<!here )\b(?:is|are|was|were) no (?!more\b|less\b|worse\b|\w+er\b)[a-z`*]",
    "an address that holds it whole": r"address(?:es)? that holds? (?:it|them) whole",
    "those of before": r"\bthose of before\b",
    "without further words": r"\bwithout further words\b",
    "a constant that does not say what it counts": r"^_?(?:BLOCK|MOST|LONGEST|SHOWN|LIMIT|ENOUGH)(?::[^=]*)? = [\d{]",
}
MODULES: Final = r"asked|aside|given|looks|places|pools|answers|entering|utils?|helpers|misc|common|tools"

PARTICIPLES: Final = (
    r"[a-z]+ed|shown|said|told|given|taken|kept|made|found|drawn|known|seen|sent|written|chosen|grown|left"
    r"|whole|others|some"
)
VERBS: Final = {"embed", "seed", "need", "feed"}

MAX_WITHOUT_NAMES: Final = 7  # arguments of a call
TAKES_ANY_NUMBER: Final = {"Table", "call", "create_table", "describe_statuses", "numbered", "pack"}

CLASSES_TWICE: Final[dict[str, str]] = {}  # name: why both may be called so


class Line(NamedTuple):
    """A place in a file, as editors and terminals read it."""

    path: Path
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.number}: {self.text.strip()[:90]}"


@cache
def files() -> tuple[Path, ...]:
    """Every text that people read, tests and made pages left out."""
    folders = [ROOT / folder for folder in ("src", "docs", "benchmarks", "examples", "page/src")]
    found = [path for folder in folders for path in folder.rglob("*") if path.suffix in TEXTS]
    left_out = {"static", "results", "node_modules"}
    made = ROOT / "docs" / "notebooks"  # by the site, of what is read in examples/notebooks
    kept = [
        path
        for path in found
        if not left_out & set(path.parts) and path not in LEFT_OUT and not path.is_relative_to(made)
    ]
    return (*sorted(kept), *sorted(ROOT.glob("*.md")))


@cache
def modules() -> dict[str, tuple[Path, ast.Module]]:
    """The modules of the package by their dotted names."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = path, ast.parse(path.read_text())
    return found


def functions() -> list[tuple[str, Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function that stands at the top of a module."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (name, path, node) for name, (path, tree) in modules().items() for node in tree.body if isinstance(node, kinds)
    ]


def check(found: list[Line], said: str) -> None:
    """Fail with every place that was found."""
    assert not found, f"{said}:\n" + "\n".join(map(str, found))


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_phrase_that_we_do_not_use_stands_nowhere(phrase: str) -> None:
    wrong = re.compile(PHRASES[phrase], re.IGNORECASE if phrase.islower() else 0)
    found = [
        Line(path, number, line)
        for path in files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if wrong.search(line)
    ]
    assert len(files()) > 300
    check(found, f"'{phrase}' (see docs/glossary.md)")


def test_modules_are_named_for_their_content() -> None:
    found = [Line(path, 1, name) for name, (path, _) in modules().items() if re.fullmatch(MODULES, name.split(".")[-1])]
    check(found, "modules whose name does not say what is in them")


def test_no_function_is_called_by_a_participle() -> None:
    found = []
    for _, path, node in functions():
        word = node.name.strip("_")
        if word not in VERBS and re.fullmatch(PARTICIPLES, word):
            found.append(Line(path, node.lineno, f"def {node.name}"))
    check(found, "functions that should be called by what they do or by what they give")


def test_a_class_name_means_one_thing() -> None:
    places = defaultdict(list)
    for path, tree in modules().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(Line(path, node.lineno, f"class {node.name}"))
    found = [line for name, lines in places.items() if len(lines) > 1 and name not in CLASSES_TWICE for line in lines]
    check(found, "classes of one name; give each its own, or a reason in CLASSES_TWICE")
    assert {name for name in CLASSES_TWICE if len(places[name]) < 2} == set(), "no longer needed in CLASSES_TWICE"


def test_no_function_is_there_for_tests_alone() -> None:
    words: Counter[str] = Counter()
    for path in files():
        words.update(re.findall(r"\w+", path.read_text()))
    found = [
        Line(path, node.lineno, f"def {node.name}")
        for module, path, node in functions()
        # Commands and routes are called by their decorators, migrations by alembic.
        if words[node.name] < 2 and not node.decorator_list and "migrations" not in module and node.name != "__dir__"
    ]
    check(found, "functions that nothing but a test uses")


def test_a_call_with_many_arguments_names_them() -> None:
    found = []
    for folder in ("src", "tests", "benchmarks", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and len(node.args) > MAX_WITHOUT_NAMES:
                    name = ast.unparse(node.func)
                    if name.rpartition(".")[2] not in TAKES_ANY_NUMBER:
                        found.append(Line(path, node.lineno, f"{name}: {len(node.args)} arguments without names"))
    check(found, "calls that do not explain themselves")


class Uses:
    """What the files of the repository take from the modules of the package."""

    def __init__(self) -> None:
        self.imported: set[tuple[str, str]] = set()
        self.named: dict[str, list[set[str]]] = defaultdict(list)  # module: what is named in each file that imports it
        for _, tree in modules().values():
            self.read(tree)
        for folder in ("tests", "benchmarks", "examples"):
            for path in (ROOT / folder).rglob("*.py"):
                self.read(ast.parse(path.read_text()))

    def read(self, tree: ast.Module) -> None:
        taken: set[str] = set()
        names: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                taken |= {f"{node.module}.{alias.name}" for alias in node.names}
                self.imported |= {(node.module, alias.name) for alias in node.names}
            elif isinstance(node, ast.Import):
                taken |= {alias.name for alias in node.names}
            elif isinstance(node, ast.Attribute):
                names.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                names.add(node.value)  # for getattr and monkeypatch
        for module in taken & modules().keys():
            self.named[module].append(names)

    def has(self, module: str, name: str) -> bool:
        return (module, name) in self.imported or any(name in names for names in self.named[module])


def test_what_only_its_own_module_uses_is_private() -> None:
    blocks = re.findall(
        r"```.*?```|`[^`\n]*`", "\n".join(path.read_text() for path in files() if path.suffix == ".md"), re.DOTALL
    )
    documented = set(re.findall(r"\w+", " ".join(blocks)))
    uses, found = Uses(), []
    for module, path, node in functions():
        # Commands and routes are called by their decorators, migrations by alembic; standalone.py is exported whole.
        called_otherwise = node.decorator_list or "migrations" in path.parts or path.name == "standalone.py"
        known = node.name in documented or node.name.startswith("_")
        if not known and not called_otherwise and not uses.has(module, node.name):
            found.append(Line(path, node.lineno, f"def {node.name}"))
    check(found, "functions that nothing outside of their module uses: give them an underscore")
