"""The README says nothing that the command does not know, and its configuration works."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tools_search_hosts import StdioTarget, parse_host_file
from tools_search_server.programs.cli import command

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_every_option_that_the_readme_names_exists() -> None:
    parameters = [*command.params, *(one for sub in command.commands.values() for one in sub.params)]
    options = {name for parameter in parameters for name in parameter.opts}
    of_others = {"--transport"}
    assert set(re.findall(r"--[a-z][a-z-]+", README)) <= options | of_others | {"--help"}


def test_the_configuration_that_the_readme_shows_starts_the_gateway(tmp_path: Path) -> None:
    [shown] = re.findall(r"```json\s+(.*?)```", README, re.DOTALL)
    [entry] = parse_host_file(json.loads(shown), source="README", folder=tmp_path).servers
    assert isinstance(entry.target, StdioTarget)
    assert (entry.target.command, entry.target.args[0]) == ("tools-search-server", "--config")


def test_every_file_that_the_readme_links_to_exists() -> None:
    for link in re.findall(r"\]\(([^)]+)\)", README):
        assert (Path(__file__).parents[1] / link).exists(), link


def test_the_service_that_the_examples_show_starts_the_gateway() -> None:
    unit = (Path(__file__).parents[2] / "examples/tools-search-gateway.service").read_text()
    [line] = re.findall(r"^ExecStart=(.+)$", unit, re.MULTILINE)
    program, *arguments = line.split()
    started = command.make_context(program, arguments).params
    assert Path(program).name == "tools-search-server"
    assert (str(started["config"]), started["log_format"]) == ("/etc/tools-search/mcp.json", "json")
