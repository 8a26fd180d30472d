"""What importing costs, and what is public."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import elmokit

SOURCE = Path(elmokit.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

PUBLIC = [
    "BiLM",
    "BiLMConfig",
    "BiLMOutput",
    "BiLMState",
    "CharacterBatch",
    "ChecksumMismatch",
    "DataError",
    "Elmo",
    "ElmoOutput",
    "ElmokitError",
    "Embedder",
    "MissingExtra",
    "MissingTensor",
    "Perplexity",
    "PretrainSettings",
    "RunError",
    "ScalarMix",
    "SentenceVectors",
    "TokenScores",
    "Tokens",
    "pretrain",
    "SettingsError",
    "ShapeMismatch",
    "UnknownFormat",
    "WeightBundle",
    "WeightsError",
    "__version__",
    "load",
    "load_bilm",
    "read_weights",
    "write_weights",
]


def imported_by(code: str) -> set[str]:
    """Modules that a fresh interpreter holds after `code`."""
    program = f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_the_public_names_are_these_and_each_resolves() -> None:
    assert sorted(elmokit.__all__) == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(elmokit, name) is not None
    assert set(PUBLIC) <= set(dir(elmokit))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Lemo'"):
        _ = elmokit.Lemo  # type: ignore[attr-defined]


def test_importing_elmokit_imports_nothing_heavy() -> None:
    assert not imported_by("import elmokit") & {"torch", "numpy", "h5py", "cyclopts"}


def test_help_imports_neither_torch_nor_numpy() -> None:
    modules = imported_by("from elmokit.cli import run\nassert run(['--help']) == 0")
    assert not modules & {"torch", "numpy", "h5py"}


def test_help_of_a_command_does_not_import_torch() -> None:
    modules = imported_by("from elmokit.cli import run\nassert run(['embed', '--help']) == 0")
    assert "torch" not in modules


def test_loading_a_model_imports_no_optional_package() -> None:
    modules = imported_by("import elmokit\nelmokit.load('random-tiny').embed([['a']])")
    assert not modules & {"sacremoses", "transformers", "pyarrow", "matplotlib", "cyclopts", "triton"}


def test_the_first_vector_does_not_wait_for_pytorchs_compiler() -> None:
    """Marking a function, and first values on the "meta" device, imported it: 0.8 s each time."""
    assert "torch._dynamo" not in imported_by("import elmokit\nelmokit.load('random-tiny').embed([['a']])")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_library_does_not_print_exit_or_configure_logging(path: Path) -> None:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = {call.id for call in calls if isinstance(call, ast.Name)}
    attributes = {call.attr for call in calls if isinstance(call, ast.Attribute)}
    if path.parent.name != "cli":
        assert "print" not in names
        assert not attributes & {"exit", "basicConfig"}


def test_nothing_unpickles() -> None:
    for path in MODULES:
        text = path.read_text()
        assert "import pickle" not in text
        assert "allow_pickle=True" not in text
        assert "weights_only=False" not in text
