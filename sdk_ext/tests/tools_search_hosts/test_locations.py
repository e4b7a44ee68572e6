"""Where hosts keep their files, on each platform."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools_search_hosts.locations import HOSTS, cache_folder, host_paths, project_folder, project_paths

HOME = Path("/home/u")

EVERYWHERE = {".claude.json", ".codex/config.toml", ".cursor/mcp.json"}


@pytest.mark.parametrize(
    ("platform", "environment", "others"),
    [
        (
            "linux",
            {},
            {
                ".config/Claude/claude_desktop_config.json",
                ".config/Code/User/mcp.json",
                ".config/Code/User/settings.json",
                ".config/goose/config.yaml",
                ".config/zed/settings.json",
            },
        ),
        (
            "darwin",
            {},
            {
                "Library/Application Support/Claude/claude_desktop_config.json",
                "Library/Application Support/Code/User/mcp.json",
                "Library/Application Support/Code/User/settings.json",
                ".config/goose/config.yaml",
                ".config/zed/settings.json",
            },
        ),
    ],
)
def test_each_platform_has_its_own_places(platform: str, environment: dict[str, str], others: set[str]) -> None:
    places = host_paths(environment=environment, home=HOME, platform=platform)
    assert {place.path.relative_to(HOME).as_posix() for place in places} == EVERYWHERE | others
    assert {place.host for place in places} == HOSTS.keys()


def test_variables_move_the_folders_of_hosts_that_heed_them() -> None:
    environment = {"XDG_CONFIG_HOME": "/x", "CODEX_HOME": "/c", "CLAUDE_CONFIG_DIR": "/d"}
    paths = {str(place.path) for place in host_paths(environment=environment, home=HOME, platform="linux")}
    assert {"/x/zed/settings.json", "/c/config.toml", "/d/.claude.json"} <= paths


def test_a_project_is_the_repository_around_a_folder(tmp_path: Path) -> None:
    inner = tmp_path / "repository" / "src"
    inner.mkdir(parents=True)
    assert project_folder(inner) == inner.resolve()
    (tmp_path / "repository" / ".git").mkdir()
    assert project_folder(inner) == (tmp_path / "repository").resolve()
    assert all(place.is_project and place.host in HOSTS for place in project_paths(inner))


def test_caches_are_where_the_user_wants_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("one") == tmp_path / "one"
    for unset in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert cache_folder("one") == Path.home() / ".cache/one"
