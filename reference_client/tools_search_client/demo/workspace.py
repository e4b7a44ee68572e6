"""A folder with something for the servers to work on: a repository, a database, and room for a workbook."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["Workspace", "git", "git_program", "make_workspace"]


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where everything of one run lies."""

    folder: Path
    no_git: str | None = None
    """Why there is no repository; `None` where there is one."""

    @property
    def repository(self) -> Path:
        """A git repository with one commit and one staged file."""
        return self.folder / "repository"

    @property
    def database(self) -> Path:
        """An SQLite database with one table."""
        return self.folder / "orders.db"

    @property
    def workbook(self) -> Path:
        """Where a workbook will be: nothing is there yet."""
        return self.folder / "budget.xlsx"


def git_program() -> str | None:
    """Return where git is, or `None` on a machine without it."""
    return shutil.which("git")


def make_workspace(folder: Path) -> Workspace:
    """Fill an empty folder; the repository is left out where git is missing or refuses to work."""
    workspace = Workspace(folder)
    with sqlite3.connect(workspace.database) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, total REAL)")
        database.executemany("INSERT INTO orders (customer, total) VALUES (?, ?)", [("Ada", 12.5), ("Grace", 99.0)])
    database.close()
    if git_program() is None:
        return replace(workspace, no_git="git is not on this machine")
    try:
        _make_repository(workspace.repository)
    except (OSError, subprocess.CalledProcessError) as error:
        said: str = getattr(error, "stderr", None) or str(error)
        return replace(workspace, no_git=f"git does not work: {said.strip()}")
    return workspace


def git(repository: Path, *arguments: str) -> str:
    """Run git in `repository`, untouched by the user's own settings, and return what it prints.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    command = [git_program() or "git", "-C", str(repository), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)  # noqa: S603
    return done.stdout.strip()


def _make_repository(repository: Path) -> None:
    repository.mkdir()
    git(repository, "init", "--quiet")
    git(repository, "config", "user.name", "Demo")
    git(repository, "config", "user.email", "demo@example.com")
    (repository / "README.md").write_text("# Orders\n", encoding="utf-8")
    git(repository, "add", "README.md")
    git(repository, "commit", "--quiet", "--message", "Start")
    (repository / "prices.csv").write_text("item,price\napple,1\n", encoding="utf-8")
    git(repository, "add", "prices.csv")
