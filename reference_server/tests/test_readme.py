"""The README and the pages in `docs/`: what they name exists, and the configuration that they show works."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tools_search_hosts import StdioTarget, load_host_file
from tools_search_server.programs.cli import command

SERVER = Path(__file__).parents[1]
README = SERVER / "README.md"
PAGES = [README, *sorted((SERVER / "docs").glob("*.md"))]


def pages() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        yield page, page.read_text()


def test_every_option_that_a_page_names_exists() -> None:
    parameters = [*command.params, *(parameter for sub in command.commands.values() for parameter in sub.params)]
    options = {name for parameter in parameters for name in parameter.opts}
    of_others = {"--transport", "--endurance-minutes"}
    for page, text in pages():
        assert set(re.findall(r"--[a-z][a-z-]+", text)) <= options | of_others | {"--help"}, page


def test_every_option_is_explained_on_some_page() -> None:
    options = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
    shown = " ".join(text for _, text in pages())
    of_help_alone = {
        "--allow-remote", "--default-limit", "--max-limit", "--version", "--compat-prefix", "--json", "--log-format",
    }  # fmt: skip
    assert {option for option in options if option not in shown} <= of_help_alone


def test_the_configuration_that_the_readme_shows_starts_the_gateway(tmp_path: Path) -> None:
    [shown] = re.findall(r"```json\s+(.*?)```", README.read_text(), re.DOTALL)
    (tmp_path / "mcp.json").write_text(shown)
    [entry] = load_host_file(tmp_path / "mcp.json").servers
    assert isinstance(entry.target, StdioTarget)
    assert (entry.target.command, entry.target.args[0]) == ("tools-search-server", "--config")


def test_every_module_of_the_folders_in_the_table_is_named_there() -> None:
    sources = SERVER / "tools_search_server"
    folder, named = "", set[Path]()
    for stated, name in re.findall(r"`(?:([a-z]+)/)?([a-z_]+\.py)`", README.read_text()):
        folder = stated or folder
        named.add(Path(folder, name))
    assert all((sources / module).exists() for module in named)
    modules = {
        path.relative_to(sources)
        for folder in ("gateway", "compat", "catalog", "programs")
        for path in (sources / folder).glob("*.py")
        if path.name != "__init__.py"
    }
    assert modules <= named


def test_the_service_that_the_examples_show_starts_the_gateway() -> None:
    unit = (SERVER.parent / "examples/tools-search-gateway.service").read_text()
    [line] = re.findall(r"^ExecStart=(.+)$", unit, re.MULTILINE)
    program, *arguments = line.split()
    started = command.make_context(program, arguments).params
    assert Path(program).name == "tools-search-server"
    assert (str(started["config"]), started["log_format"]) == ("/etc/tools-search/mcp.json", "json")
